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

}  // namespace

template <class T>
std::size_t column_sums_scratch_bytes(std::int64_t rows, std::int64_t columns) {
  return sum_columns_scratch_bytes<T, 1>(rows, columns);
}

template <class T>
void column_sums(std::int64_t rows, std::int64_t columns, const T* x, float* sums, void* scratch,
                 On on) {
  if (moves_in_packs<T>(columns, {x})) {
    constexpr int V = kPack<T>;
    sum_columns<V>(rows, columns, Elements<T, V>{x, columns}, scratch, sums, nullptr, on);
  } else {
    sum_columns<1>(rows, columns, Elements<T, 1>{x, columns}, scratch, sums, nullptr, on);
  }
}

#define HETPIPE_COLUMN_SUMS(T)                                                                \
  template std::size_t column_sums_scratch_bytes<T>(std::int64_t rows, std::int64_t columns); \
  template void column_sums(std::int64_t, std::int64_t, const T*, float*, void*, On);
HETPIPE_COLUMN_SUMS(float)
HETPIPE_COLUMN_SUMS(Bf16)
HETPIPE_COLUMN_SUMS(Fp16)

}  // namespace hetpipe::cuda
