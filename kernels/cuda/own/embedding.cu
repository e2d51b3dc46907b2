// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/embedding.h"

#include <limits>

#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/columns.h"
#include "kernels/cuda/own/token_rows.h"

namespace hetpipe::cuda {
namespace {

constexpr std::int64_t kMapBlocks = 4096;
// body(i) for all i < count, which the grid's threads share.
template <class Body>
HETPIPE_DEVICE void for_all(std::int64_t count, const Body& body) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads)
    body(i);
}

template <class T, int V>
HETPIPE_DEVICE Pack<T, V> narrowed(const Pack<float, V>& wide) {
  Pack<T, V> pack{};
  for (int v = 0; v < V; ++v) pack.at[v] = static_cast<T>(wide.at[v]);
  return pack;
}

template <class T, int V>
HETPIPE_KERNEL void gather(EmbeddingSizes s, const float* tokens, const float* weight, T* y,
                           std::int32_t* outside) {
  const std::int64_t packs = s.features / V;
  for_all(s.rows * packs, [&](std::int64_t i) {
    const std::int64_t row = i / packs, first = i % packs * V;
    const std::int64_t token = token_of(tokens[row], s.vocabulary);
    Pack<float, V> own{};
    if (token < 0) {
      *outside = 1;
      for (int v = 0; v < V; ++v) own.at[v] = std::numeric_limits<float>::quiet_NaN();
    } else {
      own = load<V>(weight + token * s.features + first, V);
    }
    store_pack(y + row * s.features + first, narrowed<T>(own));
  });
}

template <class T, int V>
HETPIPE_KERNEL void sum_token_rows(EmbeddingSizes s, TokenRows of, const T* dy, float* dweight) {
  constexpr int kGroup = 4;  // rows in flight
  const std::int64_t packs = s.features / V;
  for_all(s.vocabulary * packs, [&](std::int64_t i) {
    const std::int64_t token = i / packs, first = i % packs * V;
    const std::int32_t end = of.begin[token + 1];
    CompensatedSum sums[V];
    for (std::int32_t k = of.begin[token]; k < end; k += kGroup) {
      Pack<T, V> loaded[kGroup]{};
      HETPIPE_UNROLL
      for (int g = 0; g < kGroup; ++g)
        if (k + g < end)
          loaded[g] = load_pack<V>(dy + std::int64_t{of.rows[k + g]} * s.features + first);
      HETPIPE_UNROLL
      for (int g = 0; g < kGroup; ++g)
        if (k + g < end)
          for (int v = 0; v < V; ++v) sums[v].add(static_cast<float>(loaded[g].at[v]));
    }
    Pack<float, V> out{};
    for (int v = 0; v < V; ++v) out.at[v] = sums[v].sum;
    store(dweight + token * s.features + first, out, V);
  });
}

template <class T, int V>
HETPIPE_KERNEL void add_positions(ColumnLayout l, const T* x, const float* weight, T* y) {
  const ColumnPlace place(l, V);
  if (place.first >= place.end) return;
  const auto own = load<V>(weight + place.column, V);
  for_rows<4>(
      place, [&](std::int64_t row) { return load_pack<V>(x + row * l.columns + place.column); },
      [&](std::int64_t row, const Pack<T, V>& loaded) {
        Pack<float, V> sum{};
        for (int v = 0; v < V; ++v) sum.at[v] = static_cast<float>(loaded.at[v]) + own.at[v];
        store_pack(y + row * l.columns + place.column, narrowed<T>(sum));
      },
      [] {});
}

HETPIPE_KERNEL void set_zero(std::int64_t count, float* x) {
  for_all(count, [&](std::int64_t i) { x[i] = 0; });
}

}  // namespace

template <class T>
void embedding_forward(const EmbeddingSizes& s, const float* tokens, const float* weight, T* y,
                       std::int32_t* outside, On on) {
  const bool packs = moves_in_packs<T>(s.features, {y});
  launch(packs ? gather<T, kPack<T>> : gather<T, 1>,
         blocks_for(s.rows * s.features / (packs ? kPack<T> : 1)), kThreads, on, s, tokens, weight,
         y, outside);
}

std::size_t embedding_scratch_bytes(const EmbeddingSizes& s) {
  return token_rows_bytes(s.rows, s.vocabulary);
}

template <class T>
void embedding_weight_gradient(const EmbeddingSizes& s, const float* tokens, const T* dy,
                               float* dweight, std::int32_t* outside, void* scratch, On on) {
  const TokenRows of = rows_by_token(s.rows, s.vocabulary, tokens, outside, scratch, on);
  const bool packs = moves_in_packs<T>(s.features, {dy});
  launch(packs ? sum_token_rows<T, kPack<T>> : sum_token_rows<T, 1>,
         blocks_for(s.vocabulary * s.features / (packs ? kPack<T> : 1)), kThreads, on, s, of, dy,
         dweight);
}

template <class T>
void position_forward(std::int64_t batch, std::int64_t count, const T* x, const float* weight, T* y,
                      On on) {
  const bool packs = moves_in_packs<T>(count, {x, y});
  const ColumnLayout l = column_layout(batch, count, packs ? kPack<T> : 1, 4, kMapBlocks);
  launch(packs ? add_positions<T, kPack<T>> : add_positions<T, 1>, l.blocks(), kColumnThreads, on,
         l, x, weight, y);
}

template <class T>
std::size_t position_scratch_bytes(std::int64_t batch, std::int64_t count) {
  return column_sums_scratch_bytes<T>(batch, count);
}

template <class T>
void position_weight_gradient(std::int64_t batch, std::int64_t count, std::int64_t weights,
                              const T* dy, float* dweight, void* scratch, On on) {
  column_sums(batch, count, dy, dweight, scratch, on);
  if (weights == count) return;
  launch(set_zero, blocks_for(weights - count), kThreads, on, weights - count, dweight + count);
}

#define HETPIPE_EMBEDDING(T)                                                                     \
  template void embedding_forward(const EmbeddingSizes&, const float*, const float*, T*,         \
                                  std::int32_t*, On);                                            \
  template void embedding_weight_gradient(const EmbeddingSizes&, const float*, const T*, float*, \
                                          std::int32_t*, void*, On);                             \
  template void position_forward(std::int64_t, std::int64_t, const T*, const float*, T*, On);    \
  template std::size_t position_scratch_bytes<T>(std::int64_t, std::int64_t);                    \
  template void position_weight_gradient(std::int64_t, std::int64_t, std::int64_t, const T*,     \
                                         float*, void*, On);
HETPIPE_EMBEDDING(float)
HETPIPE_EMBEDDING(Bf16)
HETPIPE_EMBEDDING(Fp16)

}  // namespace hetpipe::cuda
