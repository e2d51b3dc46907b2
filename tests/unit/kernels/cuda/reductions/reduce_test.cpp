// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/reduce.h"

#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace reduce_test {

using namespace test;

HETPIPE_KERNEL void sum_up(const float* x, std::int64_t count, float* sum) {
  CompensatedSum own;
  for (std::int64_t i = 0; i < count; ++i) own.add(x[i]);
  *sum = own.sum;
}

TEST(Reduce, CompensatedSumLosesNothing) {
  const Array<float> x(std::vector<float>(1'000'000, 0.1f)), sum(1);
  launch(sum_up, 1, 1, nullptr, x.data(), 1'000'000, sum.data());
  // One by one, float ends at 100958.
  EXPECT_EQ(sum.data()[0], static_cast<float>(1'000'000 * double{0.1f}));
}

TEST(Reduce, WhatIsNotFiniteStaysSo) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    const Array<float> x(std::vector<float>{1, bad, 2, 3}), sum(1);
    launch(sum_up, 1, 1, nullptr, x.data(), 4, sum.data());
    EXPECT_FALSE(std::isfinite(sum.data()[0])) << bad;
  }
}

// Every thread gets the results, in two rounds that share their memory.
template <int kTeam>
HETPIPE_KERNEL void reduce_team(const std::int64_t* x, std::int64_t* to) {
  const std::int64_t own = x[threadIdx.x];
  std::int64_t sums[2] = {own, own * own};
  team_reduce<kTeam>(sums, Plus{});
  const std::int64_t smallest = team_reduce<kTeam>(own + sums[0], Smaller{});
  to[3 * threadIdx.x] = sums[0];
  to[3 * threadIdx.x + 1] = sums[1];
  to[3 * threadIdx.x + 2] = smallest;
}

template <int kTeam>
void expect_reduced() {
  std::vector<std::int64_t> x;
  for (int i = 0; i < 256; ++i) x.push_back((i * 37 + 11) % 256);
  const Array<std::int64_t> from(x);
  const auto got = in_both_orders([&] {
    Array<std::int64_t> r(3 * 256);
    launch(reduce_team<kTeam>, 1, 256, nullptr, from.data(), r.data());
    return r;
  });
  for (std::size_t i = 0; i < 256; ++i) {
    std::int64_t sum = 0, squares = 0, smallest = INT64_MAX;
    for (std::size_t k = i / kTeam * kTeam; k < (i / kTeam + 1) * kTeam; ++k) {
      sum += x[k];
      squares += x[k] * x[k];
      smallest = std::min(smallest, x[k]);
    }
    EXPECT_EQ(got.data()[3 * i], sum);
    EXPECT_EQ(got.data()[3 * i + 1], squares);
    EXPECT_EQ(got.data()[3 * i + 2], smallest + sum);
  }
}

TEST(Reduce, ByWarps) { expect_reduced<kWarp>(); }
TEST(Reduce, ByBlocks) { expect_reduced<256>(); }

}  // namespace reduce_test
}  // namespace hetpipe::cuda
