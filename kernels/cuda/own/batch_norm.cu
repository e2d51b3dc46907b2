// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/batch_norm.h"

#include "base/error.h"
#include "kernels/cuda/own/columns.h"

namespace hetpipe::cuda {
namespace {

// Rows that statistics load at a time.
template <class T>
constexpr int kGroup = sizeof(T) == 4 ? 4 : 8;
constexpr std::int64_t kMapBlocks = 2048;  // of work without sums: sections may be many

// Of one channel of some rows: their mean, and the sum of squared differences from it.
struct Moments {
  float mean = 0;
  float squares = 0;

  // Takes in `other` of b rows where this has a, weight = b / (a + b).
  HETPIPE_DEVICE void merge(const Moments& other, float a, float weight) {
    const float d = other.mean - mean;
    mean += d * weight;
    squares += other.squares + d * d * (a * weight);
  }
};

// partial (2, sections, channels): means, then sums of squares. A thread merges groups of kGroup<T>
// rows, whose own moments come from two passes over registers.
template <class T, int V>
HETPIPE_KERNEL __launch_bounds__(kColumnThreads, 4) void section_moments(ColumnLayout l, const T* x,
                                                                         float* partial) {
  HETPIPE_SHARED(means, float[V][kColumnThreads]);
  HETPIPE_SHARED(squares, float[V][kColumnThreads]);
  HETPIPE_SHARED(counts, float[kColumnThreads]);
  constexpr int kRows = kGroup<T>;
  const ColumnPlace place(l, V);
  Moments own[V];
  // A thread takes all relative to its first row, which costs no digits where the mean is large.
  float origin[V] = {}, rows = 0;
  if (place.first < place.end) {
    const auto first = load_pack<V>(x + place.first * l.columns + place.column);
    for (int v = 0; v < V; ++v) origin[v] = static_cast<float>(first.at[v]);
  }
  for (std::int64_t row = place.first; row < place.end; row += kRows * place.step) {
    Pack<T, V> loaded[kRows]{};
    int count = 0;
    HETPIPE_UNROLL
    for (int k = 0; k < kRows; ++k)
      if (row + k * place.step < place.end) {
        loaded[k] = load_pack<V>(x + (row + k * place.step) * l.columns + place.column);
        ++count;
      }
    const float inverse = 1 / static_cast<float>(count);
    const float weight = static_cast<float>(count) / (rows + static_cast<float>(count));
    HETPIPE_UNROLL
    for (int v = 0; v < V; ++v) {
      Moments group;
      HETPIPE_UNROLL
      for (int k = 0; k < kRows; ++k)
        if (k < count) group.mean += static_cast<float>(loaded[k].at[v]) - origin[v];
      group.mean *= inverse;
      HETPIPE_UNROLL
      for (int k = 0; k < kRows; ++k)
        if (k < count) {
          const float d = static_cast<float>(loaded[k].at[v]) - origin[v] - group.mean;
          group.squares += d * d;
        }
      own[v].merge(group, rows, weight);
    }
    rows += static_cast<float>(count);
  }
  const int thread = static_cast<int>(threadIdx.x);
  counts[thread] = rows;
  for (int v = 0; v < V; ++v) {
    means[v][thread] = origin[v] + own[v].mean;
    squares[v][thread] = own[v].squares;
  }
  for (int half = l.down / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half * l.across) continue;
    const int other = thread + half * l.across;
    if (counts[other] == 0) continue;
    const float weight = counts[other] / (counts[thread] + counts[other]);
    for (int v = 0; v < V; ++v) {
      Moments sum{means[v][thread], squares[v][thread]};
      sum.merge({means[v][other], squares[v][other]}, counts[thread], weight);
      means[v][thread] = sum.mean;
      squares[v][thread] = sum.squares;
    }
    counts[thread] += counts[other];
  }
  if (thread >= l.across || place.column >= l.columns) return;
  for (int v = 0; v < V; ++v) {
    partial[place.section * l.columns + place.column + v] = means[v][thread];
    partial[(l.sections + place.section) * l.columns + place.column + v] = squares[v][thread];
  }
}

// By blocks as column_totals'. Two passes over the sections: the mean of their means, then the
// squares about it.
HETPIPE_KERNEL __launch_bounds__(kTotalsThreads) void batch_moments(ColumnLayout l,
                                                                    const float* partial,
                                                                    float* mean, float* variance,
                                                                    RunningStatistics running) {
  constexpr int kDown = kTotalsDown;
  HETPIPE_SHARED(parts, float[2][kDown][kWarp]);
  const int x = static_cast<int>(threadIdx.x) % kWarp, y = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kWarp + x;
  const bool inside = channel < l.columns;
  const auto rows_of = [&](std::int64_t section) {
    const std::int64_t left = l.rows - section * l.section_rows;
    return static_cast<float>(left < l.section_rows ? left : l.section_rows);
  };
  // About the first section's mean, so that no digits are lost to a large one.
  const float origin = inside ? partial[channel] : 0;
  CompensatedSum sum;
  const std::int64_t sections = inside ? l.sections : 0;
  for_strided(
      y, sections, kDown, [&](std::int64_t k) { return partial[k * l.columns + channel]; },
      [&](std::int64_t k, float part) { sum.add((part - origin) * rows_of(k)); });
  parts[0][y][x] = sum.sum;
  __syncthreads();
  float total = 0;
  for (int k = 0; k < kDown; ++k) total += parts[0][k][x];
  const float batch_mean = origin + total / static_cast<float>(l.rows);
  CompensatedSum squares;
  for_strided(
      y, sections, kDown,
      [&](std::int64_t k) {
        return Moments{partial[k * l.columns + channel],
                       partial[(l.sections + k) * l.columns + channel]};
      },
      [&](std::int64_t k, const Moments& part) {
        const float d = part.mean - batch_mean;
        squares.add(part.squares + d * d * rows_of(k));
      });
  parts[1][y][x] = squares.sum;
  __syncthreads();
  if (y > 0 || !inside) return;
  total = 0;
  for (int k = 0; k < kDown; ++k) total += parts[1][k][x];
  const float rows = static_cast<float>(l.rows);
  const float batch_variance = total / rows;
  mean[channel] = batch_mean;
  variance[channel] = batch_variance;
  const auto update = [&](float* of, float batch) {
    of[channel] = (1 - running.momentum) * of[channel] + running.momentum * batch;
  };
  if (running.mean != nullptr) update(running.mean, batch_mean);
  if (running.variance != nullptr && l.rows > 1)
    update(running.variance, batch_variance * (rows / (rows - 1)));
}

// The value of x, which is d above the mean; the same in forward and in the mask of backward.
HETPIPE_DEVICE float normalised(float d, float factor, float shift) { return d * factor + shift; }
HETPIPE_DEVICE float factor_of(float scale, float variance, float epsilon) {
  return scale / sqrtf(variance + epsilon);
}

template <class T, int V, bool kResidual>
HETPIPE_KERNEL __launch_bounds__(kColumnThreads,
                                 4) void normalise(ColumnLayout l, float epsilon, AfterNorm after,
                                                   const T* x, const float* mean,
                                                   const float* variance, const float* scale,
                                                   const float* shift, const T* residual, T* y) {
  struct Loaded {
    Pack<T, V> x{}, residual{};
  };
  const ColumnPlace place(l, V);
  if (place.first >= place.end) return;
  const auto means = load<V>(mean + place.column, V), shifts = load<V>(shift + place.column, V);
  auto factors = load<V>(scale + place.column, V);
  for (int v = 0; v < V; ++v)
    factors.at[v] = factor_of(factors.at[v], variance[place.column + v], epsilon);
  for_rows<4>(
      place,
      [&](std::int64_t row) {
        const std::int64_t at = row * l.columns + place.column;
        Loaded loaded{};
        loaded.x = load_pack<V>(x + at);
        if constexpr (kResidual) loaded.residual = load_pack<V>(residual + at);
        return loaded;
      },
      [&](std::int64_t row, const Loaded& loaded) {
        Pack<T, V> out{};
        for (int v = 0; v < V; ++v) {
          const float d = static_cast<float>(loaded.x.at[v]) - means.at[v];
          float value = normalised(d, factors.at[v], shifts.at[v]);
          if constexpr (kResidual) value += static_cast<float>(loaded.residual.at[v]);
          if (after == AfterNorm::relu && value <= 0) value = 0;  // a NaN stays one
          out.at[v] = static_cast<T>(value);
        }
        store_pack(y + row * l.columns + place.column, out);
      },
      [] {});
}

// Where dy is taken as 0: where ReLU's output is 0 or less.
enum class Mask { none, from_output, from_input };

// The sums of dy*normalised and of dy.
template <class T, int V, Mask mask>
struct GradientTerms {
  static constexpr int kSums = 2;
  static constexpr int kGroup = mask == Mask::from_output ? 2 : 4;  // what registers hold
  struct Columns {
    float mean[V], inverse[V];
    float factor[V], shift[V];  // of the mask
  };
  struct Loaded {
    Pack<T, V> x{}, dy{}, y{};
  };

  BatchNormGradients<T> g;
  BatchNormSizes s;

  HETPIPE_DEVICE Columns columns(std::int64_t column) const {
    Columns c{};
    for (int v = 0; v < V; ++v) {
      c.mean[v] = g.mean[column + v];
      c.inverse[v] = 1 / sqrtf(g.variance[column + v] + s.epsilon);
      if constexpr (mask == Mask::from_input) {
        c.factor[v] = factor_of(g.scale[column + v], g.variance[column + v], s.epsilon);
        c.shift[v] = g.shift[column + v];
      }
    }
    return c;
  }
  HETPIPE_DEVICE Loaded load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * s.channels + column;
    Loaded loaded{};
    loaded.x = load_pack<V>(g.x + at);
    loaded.dy = load_pack<V>(g.dy + at);
    if constexpr (mask == Mask::from_output) loaded.y = load_pack<V>(g.y + at);
    return loaded;
  }
  // What stays of dy; d: x above its mean.
  HETPIPE_DEVICE float passed(const Columns& c, const Loaded& loaded, int v, float d) const {
    const float dy = static_cast<float>(loaded.dy.at[v]);
    if constexpr (mask == Mask::from_output) {
      if (static_cast<float>(loaded.y.at[v]) <= 0) return 0;
    } else if constexpr (mask == Mask::from_input) {
      const T y = static_cast<T>(normalised(d, c.factor[v], c.shift[v]));
      if (static_cast<float>(y) <= 0) return 0;
    }
    return dy;
  }
  HETPIPE_DEVICE void add(const Columns& c, std::int64_t, const Loaded& loaded,
                          float (&sums)[kSums][V]) const {
    for (int v = 0; v < V; ++v) {
      const float d = static_cast<float>(loaded.x.at[v]) - c.mean[v];
      const float dy = passed(c, loaded, v, d);
      sums[0][v] += dy * (d * c.inverse[v]);
      sums[1][v] += dy;
    }
  }
};

// dx and dresidual, from products = sum of dy*normalised and sum = sum of dy, which dx alone needs.
template <class T, int V, Mask mask>
HETPIPE_KERNEL __launch_bounds__(kColumnThreads,
                                 3) void input_gradients(ColumnLayout l,
                                                         GradientTerms<T, V, mask> terms,
                                                         const float* products, const float* sum) {
  const ColumnPlace place(l, V);
  if (place.first >= place.end) return;
  const BatchNormGradients<T>& g = terms.g;
  const auto columns = terms.columns(place.column);
  float factor[V] = {}, shared[V] = {}, slope[V] = {};
  if (g.dx != nullptr) {
    const float rows = static_cast<float>(l.rows);
    for (int v = 0; v < V; ++v) {
      factor[v] = g.scale[place.column + v] * columns.inverse[v];
      shared[v] = sum[place.column + v] / rows;
      slope[v] = columns.inverse[v] * (products[place.column + v] / rows);
    }
  }
  for_rows<GradientTerms<T, V, mask>::kGroup>(
      place, [&](std::int64_t row) { return terms.load(row, place.column); },
      [&](std::int64_t row, const auto& loaded) {
        Pack<T, V> dx{}, dresidual{};
        for (int v = 0; v < V; ++v) {
          const float d = static_cast<float>(loaded.x.at[v]) - columns.mean[v];
          const float dy = terms.passed(columns, loaded, v, d);
          dx.at[v] = static_cast<T>(factor[v] * (dy - shared[v] - d * slope[v]));
          dresidual.at[v] = static_cast<T>(dy);
        }
        const std::int64_t at = row * l.columns + place.column;
        if (g.dx != nullptr) store_pack(g.dx + at, dx);
        if (g.dresidual != nullptr) store_pack(g.dresidual + at, dresidual);
      },
      [] {});
}

ColumnLayout moments_layout(const BatchNormSizes& s, int pack) {
  return column_layout(s.rows, s.channels, pack, kSumRounds, kSumBlocks);
}

template <class T, int V, Mask mask>
void backward(const BatchNormSizes& s, const BatchNormGradients<T>& g, void* scratch, On on) {
  // Sums that only dx needs.
  float* const sums = static_cast<float*>(scratch);
  float* const dscale = g.dscale != nullptr ? g.dscale : sums;
  float* const dshift = g.dshift != nullptr ? g.dshift : sums + s.channels;
  const GradientTerms<T, V, mask> terms{g, s};
  if (g.dx != nullptr || g.dscale != nullptr || g.dshift != nullptr)
    sum_columns<V>(s.rows, s.channels, terms, sums + 2 * s.channels, dscale, dshift, on);
  if (g.dx == nullptr && g.dresidual == nullptr) return;
  const ColumnLayout l = column_layout(s.rows, s.channels, V, 4, kMapBlocks);
  launch(input_gradients<T, V, mask>, l.blocks(), kColumnThreads, on, l, terms, dscale, dshift);
}

template <class T, int V>
void backward(const BatchNormSizes& s, AfterNorm after, const BatchNormGradients<T>& g,
              void* scratch, On on) {
  if (after == AfterNorm::nothing) return backward<T, V, Mask::none>(s, g, scratch, on);
  if (g.y != nullptr) return backward<T, V, Mask::from_output>(s, g, scratch, on);
  backward<T, V, Mask::from_input>(s, g, scratch, on);
}

}  // namespace

template <class T>
std::size_t batch_norm_scratch_bytes(const BatchNormSizes& s) {
  const auto floats = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  std::int64_t sections = moments_layout(s, 1).sections;
  if (s.channels % kColumnPack == 0)
    sections = std::max(sections, moments_layout(s, kColumnPack).sections);
  return std::max(floats(2 * sections * s.channels),
                  floats(2 * s.channels) + sum_columns_scratch_bytes<T, 2>(s.rows, s.channels));
}

template <class T>
void batch_norm_statistics(const BatchNormSizes& s, const T* x, float* mean, float* variance,
                           const RunningStatistics& running, void* scratch, On on) {
  const bool packs = moves_in_packs<T>(s.channels, {x});
  const ColumnLayout l = moments_layout(s, packs ? kColumnPack : 1);
  float* const partial = static_cast<float*>(scratch);
  launch(packs ? section_moments<T, kColumnPack> : section_moments<T, 1>, l.blocks(),
         kColumnThreads, on, l, x, partial);
  const unsigned blocks = one_each((s.channels + kWarp - 1) / kWarp);
  launch(batch_moments, blocks, kTotalsThreads, on, l, partial, mean, variance, running);
}

template <class T>
void batch_norm_forward(const BatchNormSizes& s, AfterNorm after, const T* x, const float* mean,
                        const float* variance, const float* scale, const float* shift,
                        const T* residual, T* y, On on) {
  const bool packs = moves_in_packs<T>(s.channels, {x, residual, y});
  const ColumnLayout l = column_layout(s.rows, s.channels, packs ? kColumnPack : 1, 4, kMapBlocks);
  const auto run = [&](auto* kernel) {
    launch(kernel, l.blocks(), kColumnThreads, on, l, s.epsilon, after, x, mean, variance, scale,
           shift, residual, y);
  };
  if (residual != nullptr) {
    run(packs ? normalise<T, kColumnPack, true> : normalise<T, 1, true>);
  } else {
    run(packs ? normalise<T, kColumnPack, false> : normalise<T, 1, false>);
  }
}

template <class T>
void batch_norm_backward(const BatchNormSizes& s, AfterNorm after, const BatchNormGradients<T>& g,
                         void* scratch, On on) {
  ensure(after == AfterNorm::nothing || g.y != nullptr || g.shift != nullptr,
         "ReLU's mask is in the output, or follows from the shift");
  ensure(g.dx == nullptr || g.dx != g.dresidual, "two gradients in one place");
  if (moves_in_packs<T>(s.channels, {g.x, g.y, g.dy, g.dx, g.dresidual})) {
    backward<T, kColumnPack>(s, after, g, scratch, on);
  } else {
    backward<T, 1>(s, after, g, scratch, on);
  }
}

#define HETPIPE_BATCH_NORM(T)                                                                   \
  template std::size_t batch_norm_scratch_bytes<T>(const BatchNormSizes&);                      \
  template void batch_norm_statistics(const BatchNormSizes&, const T*, float*, float*,          \
                                      const RunningStatistics&, void*, On);                     \
  template void batch_norm_forward(const BatchNormSizes&, AfterNorm, const T*, const float*,    \
                                   const float*, const float*, const float*, const T*, T*, On); \
  template void batch_norm_backward(const BatchNormSizes&, AfterNorm,                           \
                                    const BatchNormGradients<T>&, void*, On);
HETPIPE_BATCH_NORM(float)
HETPIPE_BATCH_NORM(Bf16)
HETPIPE_BATCH_NORM(Fp16)

}  // namespace hetpipe::cuda
