// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/simt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

// The emulator that the other tests of this folder stand on.
namespace hetpipe::cuda {
namespace simt_test {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct InOrder {
  explicit InOrder(SimtOrder order) { set_simt_order(order); }
  ~InOrder() { set_simt_order(SimtOrder::ascending); }
};

class Simt : public testing::TestWithParam<SimtOrder> {
 private:
  InOrder order_{GetParam()};
};

std::int64_t thread_of_grid() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }

HETPIPE_KERNEL void count_up(int* visits, std::int64_t count) {
  if (thread_of_grid() < count) visits[thread_of_grid()] += 1;
}

TEST_P(Simt, EveryThreadRunsOnce) {
  std::vector<int> visits(1000, 0);
  launch(count_up, 8, 128, nullptr, visits.data(), 1000);
  EXPECT_EQ(visits, std::vector<int>(1000, 1));
}

HETPIPE_KERNEL void note_indices(unsigned* seen) {
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  seen[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 1000 + thread;
}

TEST_P(Simt, ThreeDimensions) {
  std::vector<unsigned> seen(24 * 30);
  launch(note_indices, dim3(2, 3, 4), dim3(5, 3, 2), nullptr, seen.data());
  for (unsigned b = 0; b < 24; ++b)
    for (unsigned t = 0; t < 30; ++t) ASSERT_EQ(seen[b * 30 + t], b * 1000 + t);
}

// y = x turned round within each block, by way of shared memory.
HETPIPE_KERNEL void turn_round(const float* x, float* y, bool with_barrier) {
  HETPIPE_SHARED(tile, float[64]);
  tile[threadIdx.x] = x[thread_of_grid()];
  if (with_barrier) __syncthreads();
  y[thread_of_grid()] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST_P(Simt, SharedMemoryIsSeenAfterABarrier) {
  std::vector<float> x(192), y(192), wanted(192);
  std::iota(x.begin(), x.end(), 0.0f);
  for (std::size_t i = 0; i < 192; ++i) wanted[i] = x[i / 64 * 64 + 63 - i % 64];
  launch(turn_round, 3, 64, nullptr, x.data(), y.data(), true);
  EXPECT_EQ(y, wanted);
}

// The first half of the threads that run reads what nobody has written in this block.
TEST_P(Simt, SharedMemoryIsPoisonedForEveryBlock) {
  std::vector<float> x(192, 1.0f), y(192);
  launch(turn_round, 3, 64, nullptr, x.data(), y.data(), false);
  for (std::size_t b = 0; b < 3; ++b) {
    int poisoned = 0;
    for (std::size_t i = 0; i < 64; ++i) poisoned += std::isnan(y[b * 64 + i]);
    EXPECT_EQ(poisoned, 32);
  }
}

HETPIPE_KERNEL void tree_sum(const int* x, int* sum) {
  HETPIPE_SHARED(part, int[256]);
  part[threadIdx.x] = x[threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum = part[0];
}

TEST_P(Simt, ManyBarriers) {
  std::vector<int> x(256);
  std::iota(x.begin(), x.end(), 1);
  int sum = 0;
  launch(tree_sum, 1, 256, nullptr, x.data(), &sum);
  EXPECT_EQ(sum, 256 * 257 / 2);
}

template <class T>
HETPIPE_KERNEL void shuffles(T* down, T* up, T* across, T* from, int width) {
  const T mine = static_cast<T>(threadIdx.x) + T{1} / 2;
  down[threadIdx.x] = __shfl_down_sync(~0u, mine, 3, width);
  up[threadIdx.x] = __shfl_up_sync(~0u, mine, 2, width);
  across[threadIdx.x] = __shfl_xor_sync(~0u, mine, 5, width);
  from[threadIdx.x] = __shfl_sync(~0u, mine, 6, width);
}

template <class T>
void check_shuffles(int width) {
  constexpr int kThreads = 96;
  std::vector<T> down(kThreads), up(kThreads), across(kThreads), from(kThreads);
  launch(shuffles<T>, 1, kThreads, nullptr, down.data(), up.data(), across.data(), from.data(),
         width);
  for (int i = 0; i < kThreads; ++i) {
    const int segment = i / width * width, at = i % width;
    const auto value = [](int thread) { return static_cast<T>(thread) + T{1} / 2; };
    const auto k = static_cast<std::size_t>(i);
    ASSERT_EQ(down[k], value(at + 3 < width ? i + 3 : i));
    ASSERT_EQ(up[k], value(at >= 2 ? i - 2 : i));
    ASSERT_EQ(across[k], value(segment + (at ^ 5)));
    ASSERT_EQ(from[k], value(segment + 6));
  }
}

TEST_P(Simt, Shuffles) {
  check_shuffles<float>(32);
  check_shuffles<double>(32);
  check_shuffles<int>(8);
  check_shuffles<float>(16);
}

HETPIPE_KERNEL void votes(unsigned* ballot, int* any, int* all) {
  const unsigned t = threadIdx.x;
  if (t % 32 < 16) {  // half a warp among itself
    ballot[t] = __ballot_sync(0xffffu, t % 3 == 0);
    any[t] = __any_sync(0xffffu, t == 40);
    all[t] = __all_sync(0xffffu, t < 16);
  }
}

TEST_P(Simt, VotesOfPartOfAWarp) {
  std::vector<unsigned> ballot(64, 7);
  std::vector<int> any(64, 7), all(64, 7);
  launch(votes, 1, 64, nullptr, ballot.data(), any.data(), all.data());
  for (unsigned t = 0; t < 64; ++t) {
    const bool inside = t % 32 < 16;
    EXPECT_EQ(ballot[t], !inside ? 7 : t < 32 ? 0b1001001001001001u : 0b0010010010010010u) << t;
    EXPECT_EQ(any[t], !inside ? 7 : t >= 32) << t;
    EXPECT_EQ(all[t], !inside ? 7 : t < 32) << t;
  }
}

HETPIPE_KERNEL void count_odd(const int* x, int* odd) {
  if (x[thread_of_grid()] % 2 != 0) atomicAdd(odd, 1);
}

TEST_P(Simt, AtomicsCount) {
  std::vector<int> x(128);
  std::iota(x.begin(), x.end(), 0);
  int odd = 0;
  launch(count_odd, 2, 64, nullptr, x.data(), &odd);
  EXPECT_EQ(odd, 64);
}

HETPIPE_KERNEL void leave_early(int threads) {
  if (static_cast<int>(threadIdx.x) >= threads) return;
  __syncthreads();
}

TEST_P(Simt, ABarrierThatOneThreadNeverReachesIsAFailure) {
  EXPECT_NO_THROW(launch(leave_early, 1, 64, nullptr, 64));
  EXPECT_THAT([] { launch(leave_early, 1, 64, nullptr, 63); },
              ThrowsMessage<SimtFailure>(
                  HasSubstr("block (0, 0, 0): stuck: of 64 threads 63 wait at __syncthreads, 0 in "
                            "warp operations and 1 have left; the first that waits is thread 0 at "
                            "simt_test.cpp:")));
  EXPECT_NO_THROW(launch(leave_early, 1, 64, nullptr, 64));  // the next launch is sound again
}

HETPIPE_KERNEL void two_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_P(Simt, TwoBarriersAreNotOne) {
  EXPECT_THAT([] { launch(two_barriers, 1, 64, nullptr); },
              ThrowsMessage<SimtFailure>(HasSubstr("waits at the barrier of line")));
}

HETPIPE_KERNEL void lane_missing(float* y) {
  if (threadIdx.x % 32 == 9) return;
  *y = __shfl_down_sync(~0u, 1.0f, 1);
}
HETPIPE_KERNEL void lane_at_a_barrier(float* y) {
  if (threadIdx.x % 32 == 9) {
    __syncthreads();
  } else {
    *y = __shfl_down_sync(~0u, 1.0f, 1);
  }
}
HETPIPE_KERNEL void not_in_its_mask(float* y) { *y = __shfl_xor_sync(0x7fffffffu, *y, 0); }
HETPIPE_KERNEL void reads_outside(float* y) {
  if (threadIdx.x < 16) *y = __shfl_down_sync(0xffffu, *y, 4);
}
HETPIPE_KERNEL void other_masks(float* y) {
  *y = __shfl_xor_sync(threadIdx.x < 16 ? ~0u : 0xffffff00u, *y, 1);
}

TEST_P(Simt, WarpOperationsNeedTheirLanes) {
  float y = 0;
  const auto fails = [&](auto* kernel, unsigned threads, const char* why) {
    EXPECT_THAT([&] { launch(kernel, 1, threads, nullptr, &y); },
                ThrowsMessage<SimtFailure>(HasSubstr(why)))
        << why;
  };
  fails(lane_missing, 32, "thread 9 has left before a warp shuffle");
  fails(lane_at_a_barrier, 32, "stuck: of 32 threads 1 wait at __syncthreads, 31 in warp");
  fails(not_in_its_mask, 32, "thread 31 is not in its mask of a warp shuffle");
  fails(reads_outside, 32, ", which takes no part in a warp shuffle");
  fails(other_masks, 32, "for mask");
  fails(lane_at_a_barrier, 20, "names lane 20, which does not exist");
}

HETPIPE_KERNEL void read_word(const float* x, float* y) {
  const uint4 word = load_word<uint4>(x);
  std::memcpy(y, &word, sizeof word);
}

TEST_P(Simt, WordsNeedAlignment) {
  alignas(16) const float x[5] = {1, 2, 3, 4, 5};
  float y[4] = {};
  launch(read_word, 1, 1, nullptr, &x[0], &y[0]);
  EXPECT_EQ(y[3], 4);
  EXPECT_THAT([&] { launch(read_word, 1, 1, nullptr, &x[1], &y[0]); },
              ThrowsMessage<SimtFailure>(HasSubstr("thread 0 reaches for 16 bytes at ")));
}

TEST_P(Simt, LaunchesKeepCudasLimits) {
  int x = 0;
  const auto fails = [&](dim3 blocks, dim3 threads, const char* why) {
    EXPECT_THAT([&] { launch(count_up, blocks, threads, nullptr, &x, 0); },
                ThrowsMessage<SimtFailure>(HasSubstr(why)));
  };
  fails(0, 32, "a grid of 0 x 1 x 1 blocks");
  fails(dim3(1, 70000), 32, "a grid of 1 x 70000 x 1 blocks");
  fails(1, 1025, "blocks of 1025 x 1 x 1 threads");
  fails(1, dim3(1, 1, 65), "blocks of 1 x 1 x 65 threads");
}

INSTANTIATE_TEST_SUITE_P(Orders, Simt, testing::Values(SimtOrder::ascending, SimtOrder::descending),
                         [](const auto& order) {
                           return order.param == SimtOrder::ascending ? "ascending" : "descending";
                         });

}  // namespace simt_test
}  // namespace hetpipe::cuda
