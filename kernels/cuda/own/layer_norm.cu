// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/layer_norm.h"

#include "kernels/cuda/own/columns.h"
#include "kernels/cuda/own/rows.h"

namespace hetpipe::cuda {
namespace {

template <class T>
struct LayerNormRows {
  LayerNormSizes s;
  const T* x;
  const float* scale;
  const float* shift;
  T* y;
  float* mean;
  float* variance;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t at = row * s.features;
    const float features = static_cast<float>(s.features);
    RowPacks<T, V, held> own(x + at);
    form.for_packs(s.features, [&](int p, std::int64_t first) { own.read(p, first); });
    float sum = 0;
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      for (int v = 0; v < V; ++v) sum += static_cast<float>(pack.at[v]);
    });
    const float m = team_reduce<kTeam>(sum, Plus{}) / features;
    float squares = 0;
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      for (int v = 0; v < V; ++v) {
        const float d = static_cast<float>(pack.at[v]) - m;
        squares += d * d;
      }
    });
    const float var = team_reduce<kTeam>(squares, Plus{}) / features;
    const float inverse = 1 / sqrtf(var + s.epsilon);
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      const auto scales = load<V>(scale + first, V), shifts = load<V>(shift + first, V);
      Pack<T, V> out{};
      for (int v = 0; v < V; ++v) {
        const float normalised = (static_cast<float>(pack.at[v]) - m) * inverse;
        out.at[v] = static_cast<T>(normalised * scales.at[v] + shifts.at[v]);
      }
      store_pack(y + at + first, out);
    });
    if (mean == nullptr || threadIdx.x % kTeam != 0) return;
    mean[row] = m;
    variance[row] = var;
  }
};

template <class T>
struct LayerNormInputGradients {
  LayerNormSizes s;
  const T* x;
  const float* mean;
  const float* variance;
  const float* scale;
  const T* dy;
  T* dx;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t at = row * s.features;
    const float features = static_cast<float>(s.features);
    const float m = mean[row], inverse = 1 / sqrtf(variance[row] + s.epsilon);
    RowPacks<T, V, held> xs(x + at), dys(dy + at);
    float sums[2] = {};  // of g = dy*scale, of g*normalised
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      xs.read(p, first);
      dys.read(p, first);
    });
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto a = xs.get(p, first), b = dys.get(p, first);
      const auto scales = load<V>(scale + first, V);
      for (int v = 0; v < V; ++v) {
        const float g = static_cast<float>(b.at[v]) * scales.at[v];
        sums[0] += g;
        sums[1] += g * ((static_cast<float>(a.at[v]) - m) * inverse);
      }
    });
    team_reduce<kTeam>(sums, Plus{});
    const float sum = sums[0] / features, products = sums[1] / features;
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto a = xs.get(p, first), b = dys.get(p, first);
      const auto scales = load<V>(scale + first, V);
      Pack<T, V> out{};
      for (int v = 0; v < V; ++v) {
        const float g = static_cast<float>(b.at[v]) * scales.at[v];
        const float normalised = (static_cast<float>(a.at[v]) - m) * inverse;
        out.at[v] = static_cast<T>(inverse * (g - sum - normalised * products));
      }
      store_pack(dx + at + first, out);
    });
  }
};

// The sums of dy*normalised and of dy, down the rows.
template <class T, int V>
struct ParameterTerms {
  static constexpr int kSums = 2;
  static constexpr int kGroup = 4;
  struct Nothing {};
  struct Loaded {
    Pack<T, V> x{}, dy{};
    float mean = 0, inverse = 0;
  };

  LayerNormSizes s;
  const T* x;
  const float* mean;
  const float* variance;
  const T* dy;

  HETPIPE_DEVICE Nothing columns(std::int64_t) const { return {}; }
  HETPIPE_DEVICE Loaded load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * s.features + column;
    return {load_pack<V>(x + at), load_pack<V>(dy + at), mean[row],
            1 / sqrtf(variance[row] + s.epsilon)};
  }
  HETPIPE_DEVICE void add(Nothing, std::int64_t, const Loaded& loaded,
                          float (&sums)[kSums][V]) const {
    for (int v = 0; v < V; ++v) {
      const float gradient = static_cast<float>(loaded.dy.at[v]);
      const float d = static_cast<float>(loaded.x.at[v]) - loaded.mean;
      sums[0][v] += gradient * (d * loaded.inverse);
      sums[1][v] += gradient;
    }
  }
};

}  // namespace

template <class T>
void layer_norm_forward(const LayerNormSizes& s, const T* x, const float* scale, const float* shift,
                        T* y, float* mean, float* variance, On on) {
  launch_rows<T>(s.rows, s.features, moves_in_packs<T>(s.features, {x, y}),
                 LayerNormRows<T>{s, x, scale, shift, y, mean, variance}, on);
}

template <class T>
void layer_norm_input_gradient(const LayerNormSizes& s, const T* x, const float* mean,
                               const float* variance, const float* scale, const T* dy, T* dx,
                               On on) {
  launch_rows<T>(s.rows, s.features, moves_in_packs<T>(s.features, {x, dy, dx}),
                 LayerNormInputGradients<T>{s, x, mean, variance, scale, dy, dx}, on);
}

template <class T>
std::size_t layer_norm_scratch_bytes(const LayerNormSizes& s) {
  return sum_columns_scratch_bytes<T, 2>(s.rows, s.features);
}

template <class T>
void layer_norm_parameter_gradients(const LayerNormSizes& s, const T* x, const float* mean,
                                    const float* variance, const T* dy, float* dscale,
                                    float* dshift, void* scratch, On on) {
  if (moves_in_packs<T>(s.features, {x, dy})) {
    constexpr int V = kColumnPack;
    sum_columns<V>(s.rows, s.features, ParameterTerms<T, V>{s, x, mean, variance, dy}, scratch,
                   dscale, dshift, on);
  } else {
    sum_columns<1>(s.rows, s.features, ParameterTerms<T, 1>{s, x, mean, variance, dy}, scratch,
                   dscale, dshift, on);
  }
}

#define HETPIPE_LAYER_NORM(T)                                                                   \
  template void layer_norm_forward(const LayerNormSizes&, const T*, const float*, const float*, \
                                   T*, float*, float*, On);                                     \
  template void layer_norm_input_gradient(const LayerNormSizes&, const T*, const float*,        \
                                          const float*, const float*, const T*, T*, On);        \
  template std::size_t layer_norm_scratch_bytes<T>(const LayerNormSizes&);                      \
  template void layer_norm_parameter_gradients(const LayerNormSizes&, const T*, const float*,   \
                                               const float*, const T*, float*, float*, void*, On);
HETPIPE_LAYER_NORM(float)
HETPIPE_LAYER_NORM(Bf16)
HETPIPE_LAYER_NORM(Fp16)

}  // namespace hetpipe::cuda
