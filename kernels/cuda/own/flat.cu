// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/flat.h"

#include "kernels/clip_step.h"
#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/sum_of_squares.h"
#include "kernels/device.h"

// Compiled without contraction.
namespace hetpipe::cuda {
namespace {

struct Fill {
  static constexpr int pack = kPack<float>;
  float* x;
  float value;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    Pack<float, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = value;
    store(x + i, to, left);
  }
};

struct Times {
  float factor;
  HETPIPE_DEVICE float operator()(float x) const { return x * factor; }
};

struct Added {
  HETPIPE_DEVICE float operator()(float x, float y) const { return x + y; }
};

// The order of additions inside a block of kSquaresBlock elements is given, so one thread adds them
// all; a warp reads eight such blocks, a run of each at a time, and eight of its lanes add. With
// more blocks to a warp fewer warps would wait for memory, with fewer blocks more lanes would idle.
constexpr int kChains = 8;
constexpr int kRun = 128;  // elements: 4 of each lane
// Rows stay aligned for 16 bytes, and eight lanes that go down a column meet eight banks.
constexpr int kRow = kRun + 4;
static_assert(kSquaresBlock % kRun == 0);

HETPIPE_KERNEL void squares_kernel(const float* x, std::int64_t count, double* blocks) {
  HETPIPE_SHARED(tile, float[kChains * kRow]);
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * kChains;
  const std::int64_t start = (first + lane) * kSquaresBlock;
  const bool adds = lane < kChains && start < count;
  const std::int64_t mine = adds ? count - start : 0;  // elements from this chain's start on
  double sum = 0;
  for (std::int64_t run = 0; run < kSquaresBlock; run += kRun) {
    HETPIPE_UNROLL
    for (int c = 0; c < kChains; ++c) {
      const std::int64_t at = (first + c) * kSquaresBlock + run + lane * 4;
      if (at < count) {
        const auto four = load<4>(x + at, count - at);
        store_word(tile + c * kRow + lane * 4, std::bit_cast<uint4>(four));
      }
    }
    __syncwarp();
    const int length = static_cast<int>(std::clamp<std::int64_t>(mine - run, 0, kRun));
    for (int k = 0; k < length; ++k) {
      const double value = static_cast<double>(tile[lane * kRow + k]);
      sum += value * value;  // the product is exact
    }
    __syncwarp();
  }
  if (adds) blocks[first + lane] = sum;
}

// The same without arithmetic of doubles. Integers are many more instructions, so that every lane
// has a chain.
constexpr int kLane = 32;         // chains of a warp, and elements of a run
constexpr int kLaneRow = 32 + 1;  // lanes down a column meet different banks

HETPIPE_KERNEL void squares_by_integers_kernel(const float* x, std::int64_t count,
                                               std::uint64_t* blocks) {
  HETPIPE_SHARED(tile, float[kLane * kLaneRow]);
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t first = std::int64_t{blockIdx.x} * kLane;
  const std::int64_t start = (first + lane) * kSquaresBlock;
  const std::int64_t mine = std::clamp<std::int64_t>(count - start, 0, std::int64_t{kSquaresBlock});
  SumOfSquares sum;
  for (std::int64_t run = 0; run < kSquaresBlock; run += kLane) {
    HETPIPE_UNROLL
    for (int c = 0; c < kLane; ++c) {
      const std::int64_t at = (first + c) * kSquaresBlock + run + lane;
      tile[c * kLaneRow + lane] = at < count ? x[at] : 0;
    }
    __syncwarp();
    const int length = static_cast<int>(std::clamp<std::int64_t>(mine - run, 0, kLane));
    for (int k = 0; k < length; ++k) sum.add(tile[lane * kLaneRow + k]);
    __syncwarp();
  }
  if (mine > 0) blocks[first + lane] = sum.bits();
}

// One block. Its first thread adds in order what all have read.
HETPIPE_KERNEL void add_in_order_kernel(const double* parts, std::int64_t count, double* result) {
  constexpr int kRead = 1024;
  HETPIPE_SHARED(tile, double[kRead]);
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kRead) {
    const int length = static_cast<int>(std::min<std::int64_t>(kRead, count - first));
    for (int k = threadIdx.x; k < length; k += blockDim.x) tile[k] = parts[first + k];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int k = 0; k < length; ++k) sum += tile[k];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) *result = sum;
}

HETPIPE_KERNEL void clip_factor_kernel(const double* squares, std::int64_t parts, double max_norm,
                                       float* factor) {
  *factor = clip_factor(squares, parts, max_norm);
}

// Leaves y untouched by a factor of 1, as the definition does.
struct Shorten {
  static constexpr int pack = kPack<float>;
  float* y;
  const float* factor;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const float by = *factor;
    if (!(by < 1)) return;
    auto values = load<pack>(y + i, left);
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) values.at[k] *= by;
    store(y + i, values, left);
  }
};

}  // namespace

void fill(float* x, float value, std::int64_t count, On on) {
  each<Fill::pack>(Fill{x, value}, count, on);
}
void scale(float* y, float factor, std::int64_t count, On on) {
  map(Times{factor}, y, y, count, on);
}

template <class T>
void add(T* y, const T* x, std::int64_t count, On on) {
  map<Added, T>(Added{}, y, x, y, count, on);
}
template <class T>
void sum(T* z, const T* x, const T* y, std::int64_t count, On on) {
  map<Added, T>(Added{}, x, y, z, count, on);
}

std::int64_t squares_scratch(std::int64_t count) {
  return (count + kSquaresBlock - 1) / kSquaresBlock;
}
void sum_of_squares(double* sum, const float* x, std::int64_t count, double* scratch,
                    Doubles doubles, On on) {
  const std::int64_t chains = squares_scratch(count);
  if (chains > 0 && doubles == Doubles::slow) {
    launch(squares_by_integers_kernel, one_each((chains + kLane - 1) / kLane), kLane, on, x, count,
           reinterpret_cast<std::uint64_t*>(scratch));
  } else if (chains > 0) {
    launch(squares_kernel, one_each((chains + kChains - 1) / kChains), 32, on, x, count, scratch);
  }
  launch(add_in_order_kernel, 1, kThreads, on, scratch, chains, sum);
}
void limit_norm(float* y, const double* squares, std::int64_t parts, double max_norm,
                std::int64_t count, float* factor, On on) {
  launch(clip_factor_kernel, 1, 1, on, squares, parts, max_norm, factor);
  each<Shorten::pack>(Shorten{y, factor}, count, on);
}

#define HETPIPE_FLAT(T)                              \
  template void add(T*, const T*, std::int64_t, On); \
  template void sum(T*, const T*, const T*, std::int64_t, On);
HETPIPE_FLAT(float)
HETPIPE_FLAT(Bf16)
HETPIPE_FLAT(Fp16)

}  // namespace hetpipe::cuda
