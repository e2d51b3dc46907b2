// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/column_sums.h"

#include "kernels/cuda/own/columns.h"

namespace hetpipe::cuda {
namespace {

template <class T, int V>
struct Elements {
  static constexpr int kSums = 1;
  static constexpr int kGroup = 8;

  struct Nothing {};
  const T* x;
  std::int64_t width;

  HETPIPE_DEVICE Nothing columns(std::int64_t) const { return {}; }
  HETPIPE_DEVICE Pack<T, V> load(std::int64_t row, std::int64_t column) const {
    return load_pack<V>(x + row * width + column);
  }
  HETPIPE_DEVICE void add(Nothing, std::int64_t, const Pack<T, V>& loaded,
                          float (&sums)[kSums][V]) const {
    for (int v = 0; v < V; ++v) sums[0][v] += static_cast<float>(loaded.at[v]);
  }
};

template <class T, int V>
struct MaskedElements {
  static constexpr int kSums = 1;
  static constexpr int kGroup = 4;

  struct Column {
    std::int64_t number;
  };
  struct Loaded {
    Pack<T, V> y{}, dy{};
  };
  const T* y;
  const T* dy;
  T* dx;
  std::int64_t width;

  HETPIPE_DEVICE Column columns(std::int64_t column) const { return {column}; }
  HETPIPE_DEVICE Loaded load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * width + column;
    Loaded loaded{};
    loaded.y = load_pack<V>(y + at);
    loaded.dy = load_pack<V>(dy + at);
    return loaded;
  }
  HETPIPE_DEVICE void add(Column column, std::int64_t row, const Loaded& loaded,
                          float (&sums)[kSums][V]) const {
    Pack<T, V> passed{};
    for (int v = 0; v < V; ++v) {
      const float output = static_cast<float>(loaded.y.at[v]);
      const float value = output <= 0 ? 0.0f : static_cast<float>(loaded.dy.at[v]);
      passed.at[v] = static_cast<T>(value);
      sums[0][v] += value;
    }
    store_pack(dx + row * width + column.number, passed);
  }
};

}  // namespace

template <class T>
std::size_t column_sums_scratch_bytes(std::int64_t rows, std::int64_t columns) {
  return sum_columns_scratch_bytes<T, 1>(rows, columns);
}

template <class T>
void column_sums(std::int64_t rows, std::int64_t columns, const T* x, float* sums, void* scratch,
                 On on) {
  if (moves_in_packs<T>(columns, {x})) {
    constexpr int V = kColumnPack;
    sum_columns<V>(rows, columns, Elements<T, V>{x, columns}, scratch, sums, nullptr, on);
  } else {
    sum_columns<1>(rows, columns, Elements<T, 1>{x, columns}, scratch, sums, nullptr, on);
  }
}

template <class T>
void relu_backward_sums(std::int64_t rows, std::int64_t columns, const T* y, const T* dy, T* dx,
                        float* sums, void* scratch, On on) {
  if (moves_in_packs<T>(columns, {y, dy, dx})) {
    constexpr int V = kColumnPack;
    sum_columns<V>(rows, columns, MaskedElements<T, V>{y, dy, dx, columns}, scratch, sums, nullptr,
                   on);
  } else {
    sum_columns<1>(rows, columns, MaskedElements<T, 1>{y, dy, dx, columns}, scratch, sums, nullptr,
                   on);
  }
}

#define HETPIPE_COLUMN_SUMS(T)                                                                 \
  template std::size_t column_sums_scratch_bytes<T>(std::int64_t rows, std::int64_t columns);  \
  template void column_sums(std::int64_t, std::int64_t, const T*, float*, void*, On);          \
  template void relu_backward_sums(std::int64_t, std::int64_t, const T*, const T*, T*, float*, \
                                   void*, On);
HETPIPE_COLUMN_SUMS(float)
HETPIPE_COLUMN_SUMS(Bf16)
HETPIPE_COLUMN_SUMS(Fp16)

}  // namespace hetpipe::cuda
