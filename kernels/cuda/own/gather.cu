// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/gather.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"

namespace hetpipe::cuda {
namespace {

template <class T>
HETPIPE_DEVICE float number_at(const T* x, std::int64_t i) {
  return static_cast<float>(x[i]);
}

template <class T>
struct FillElements {
  T* y;
  float value;
  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const { y[i] = T(value); }
};

HETPIPE_DEVICE bool is_largest(Best best) {
  return best == Best::maximum || best == Best::first_maximum;
}
template <class T>
HETPIPE_DEVICE float best_of(const PlaceLists& lists, Best best, const T* x, std::int64_t sample,
                             std::int64_t e) {
  float most = number_at(x, sample * lists.others + lists.entries[lists.starts[e]]);
  for (std::int32_t k = lists.starts[e] + 1; k < lists.starts[e + 1]; ++k) {
    const float v = number_at(x, sample * lists.others + lists.entries[k]);
    if (most != most) break;
    if (v != v || (is_largest(best) ? v > most : v < most)) most = v;
  }
  return most;
}

template <class T>
struct GatherBest {
  PlaceLists lists;
  Best best;
  const T* x;
  T* y;
  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    y[i] = T(best_of(lists, best, x, i / lists.elements, i % lists.elements));
  }
};

template <class T>
struct SharesOfBest {
  PlaceLists lists;
  Best best;
  const T* x;
  const T* dy;
  std::int64_t entries;
  float* shares;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / lists.elements, e = i % lists.elements;
    const float most = best_of(lists, best, x, sample, e);
    const bool first = best == Best::first_maximum || best == Best::first_minimum;
    float winners = 0;
    for (std::int32_t k = lists.starts[e]; k < lists.starts[e + 1]; ++k) {
      const float v = number_at(x, sample * lists.others + lists.entries[k]);
      if (v == most || (v != v && most != most)) winners += 1;
    }
    bool taken = false;
    for (std::int32_t k = lists.starts[e]; k < lists.starts[e + 1]; ++k) {
      const float v = number_at(x, sample * lists.others + lists.entries[k]);
      const bool won = (v == most || (v != v && most != most)) && !(first && taken);
      taken = taken || won;
      shares[sample * entries + k] = won ? number_at(dy, i) / (first ? 1.0f : winners) : 0.0f;
    }
  }
};

// A block for each row.
constexpr int kRowTeam = 128;

template <class T>
HETPIPE_KERNEL void row_softmax_kernel(bool logarithm, std::int64_t rows, std::int64_t features,
                                       const T* x, T* y) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const T* const from = x + r * features;
    float most[1] = {-INFINITY};
    for (std::int64_t i = threadIdx.x; i < features; i += kRowTeam) {
      most[0] = most[0] > number_at(from, i) ? most[0] : number_at(from, i);
    }
    team_reduce<kRowTeam, 1>(most, Larger{});
    __syncthreads();
    CompensatedSum own;
    for (std::int64_t i = threadIdx.x; i < features; i += kRowTeam) {
      own.add(expf(number_at(from, i) - most[0]));
    }
    float sum[1] = {own.sum};
    team_reduce<kRowTeam, 1>(sum, Plus{});
    __syncthreads();
    const float shift = most[0] + logf(sum[0]);
    for (std::int64_t i = threadIdx.x; i < features; i += kRowTeam) {
      y[r * features + i] =
          T(logarithm ? number_at(from, i) - shift : expf(number_at(from, i) - most[0]) / sum[0]);
    }
  }
}

template <class T>
HETPIPE_KERNEL void row_softmax_gradient_kernel(bool logarithm, std::int64_t rows,
                                                std::int64_t features, const T* y, const T* dy,
                                                T* dx) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const std::int64_t first = r * features;
    CompensatedSum own;
    for (std::int64_t i = threadIdx.x; i < features; i += kRowTeam) {
      own.add(number_at(dy, first + i) * (logarithm ? 1.0f : number_at(y, first + i)));
    }
    float sum[1] = {own.sum};
    team_reduce<kRowTeam, 1>(sum, Plus{});
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < features; i += kRowTeam) {
      const float g = number_at(dy, first + i), v = number_at(y, first + i);
      dx[first + i] = T(logarithm ? g - expf(v) * sum[0] : v * (g - sum[0]));
    }
  }
}

template <class T>
struct CumulativeSums {
  std::int64_t places, features;
  bool from_end;
  const T* x;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t first = i / features * places * features + i % features;
    CompensatedSum sum;
    for (std::int64_t t = 0; t < places; ++t) {
      const std::int64_t place = first + (from_end ? places - 1 - t : t) * features;
      sum.add(number_at(x, place));
      y[place] = T(sum.sum);
    }
  }
};

unsigned blocks_of_rows(std::int64_t rows) {
  return static_cast<unsigned>(std::min<std::int64_t>(rows, kMostBlocks));
}

}  // namespace

template <class T>
void fill_elements(T* y, float value, std::int64_t count, On on) {
  each<1>(FillElements<T>{y, value}, count, on);
}

template <class T>
void gather_best(const PlaceLists& lists, Best best, const T* x, std::int64_t samples, T* y,
                 On on) {
  each<1>(GatherBest<T>{lists, best, x, y}, samples * lists.elements, on);
}
template <class T>
void shares_of_best(const PlaceLists& lists, Best best, const T* x, const T* dy,
                    std::int64_t entries, std::int64_t samples, float* shares, On on) {
  each<1>(SharesOfBest<T>{lists, best, x, dy, entries, shares}, samples * lists.elements, on);
}

template <class T>
void softmax_forward(bool logarithm, std::int64_t rows, std::int64_t features, const T* x, T* y,
                     On on) {
  if (rows == 0) return;
  launch(row_softmax_kernel<T>, blocks_of_rows(rows), kRowTeam, on, logarithm, rows, features, x,
         y);
}
template <class T>
void softmax_backward(bool logarithm, std::int64_t rows, std::int64_t features, const T* y,
                      const T* dy, T* dx, On on) {
  if (rows == 0) return;
  launch(row_softmax_gradient_kernel<T>, blocks_of_rows(rows), kRowTeam, on, logarithm, rows,
         features, y, dy, dx);
}

template <class T>
void cumulative_sum(std::int64_t outer, std::int64_t places, std::int64_t features, bool from_end,
                    const T* x, T* y, On on) {
  each<1>(CumulativeSums<T>{places, features, from_end, x, y}, outer * features, on);
}

#define HETPIPE_GATHER(T)                                                                       \
  template void fill_elements(T*, float, std::int64_t, On);                                     \
  template void gather_best(const PlaceLists&, Best, const T*, std::int64_t, T*, On);           \
  template void shares_of_best(const PlaceLists&, Best, const T*, const T*, std::int64_t,       \
                               std::int64_t, float*, On);                                       \
  template void softmax_forward(bool, std::int64_t, std::int64_t, const T*, T*, On);            \
  template void softmax_backward(bool, std::int64_t, std::int64_t, const T*, const T*, T*, On); \
  template void cumulative_sum(std::int64_t, std::int64_t, std::int64_t, bool, const T*, T*, On);
HETPIPE_GATHER(float)
HETPIPE_GATHER(Bf16)
HETPIPE_GATHER(Fp16)

}  // namespace hetpipe::cuda
