// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/group_norm.h"

#include "kernels/cuda/own/columns.h"
#include "kernels/cuda/own/rows.h"

namespace hetpipe::cuda {
namespace {

constexpr int kGroupThreads = 256;  // of a block, which has one group of one sample

struct Group {
  std::int64_t first;  // its first element
  std::int64_t channels;
  int width, count, channel;

  HETPIPE_DEVICE explicit Group(const GroupNormSizes& s)
      : channels(s.channels),
        width(static_cast<int>(s.channels / s.groups)),
        count(static_cast<int>(s.pixels) * width),
        channel(static_cast<int>(blockIdx.x % s.groups) * width) {
    first = static_cast<std::int64_t>(blockIdx.x) / s.groups * s.pixels * s.channels + channel;
  }
  // body(element, channel) for this thread's elements.
  template <class Body>
  HETPIPE_DEVICE void each(const Body& body) const {
    for (int e = static_cast<int>(threadIdx.x); e < count; e += kGroupThreads) {
      const int c = e % width;
      body(first + e / width * channels + c, channel + c);
    }
  }
};

HETPIPE_DEVICE float or_one(const float* scale, int c) { return scale == nullptr ? 1 : scale[c]; }

template <class T>
HETPIPE_KERNEL void group_norm_kernel(GroupNormSizes s, const T* x, const float* scale,
                                      const float* shift, T* y, float* mean, float* variance) {
  const Group group(s);
  const auto n = static_cast<float>(group.count);
  CompensatedSum sum, squares;
  group.each([&](std::int64_t e, int) { sum.add(static_cast<float>(x[e])); });
  const float m = team_reduce<kGroupThreads>(sum.sum, Plus{}) / n;
  group.each([&](std::int64_t e, int) {
    const float d = static_cast<float>(x[e]) - m;
    squares.add(d * d);
  });
  const float v = team_reduce<kGroupThreads>(squares.sum, Plus{}) / n;
  const float inverse = 1 / sqrtf(v + s.epsilon);
  group.each([&](std::int64_t e, int c) {
    const float normalised = (static_cast<float>(x[e]) - m) * inverse;
    y[e] = T(normalised * or_one(scale, c) + (shift == nullptr ? 0.0f : shift[c]));
  });
  if (mean == nullptr || threadIdx.x != 0) return;
  mean[blockIdx.x] = m;
  variance[blockIdx.x] = v;
}

template <class T>
HETPIPE_KERNEL void group_norm_gradient_kernel(GroupNormSizes s, const T* x, const float* mean,
                                               const float* variance, const float* scale,
                                               const T* dy, T* dx) {
  const Group group(s);
  const auto n = static_cast<float>(group.count);
  const float m = mean[blockIdx.x], inverse = 1 / sqrtf(variance[blockIdx.x] + s.epsilon);
  CompensatedSum sum, products;
  group.each([&](std::int64_t e, int c) {
    const float g = static_cast<float>(dy[e]) * or_one(scale, c);
    sum.add(g);
    products.add(g * ((static_cast<float>(x[e]) - m) * inverse));
  });
  float sums[2] = {sum.sum, products.sum};
  team_reduce<kGroupThreads>(sums, Plus{});
  group.each([&](std::int64_t e, int c) {
    const float g = static_cast<float>(dy[e]) * or_one(scale, c);
    const float normalised = (static_cast<float>(x[e]) - m) * inverse;
    dx[e] = T(inverse * (g - sums[0] / n - normalised * (sums[1] / n)));
  });
}

// The sums of dy*normalised and of dy, down the pixels.
template <class T>
struct GroupTerms {
  static constexpr int kSums = 2;
  static constexpr int kGroup = 4;
  struct Nothing {};
  struct Loaded {
    float normalised = 0, dy = 0;
  };

  GroupNormSizes s;
  const T* x;
  const float* mean;
  const float* variance;
  const T* dy;

  HETPIPE_DEVICE Nothing columns(std::int64_t) const { return {}; }
  HETPIPE_DEVICE Loaded load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * s.channels + column;
    const std::int64_t group = row / s.pixels * s.groups + column / (s.channels / s.groups);
    const float inverse = 1 / sqrtf(variance[group] + s.epsilon);
    return {(static_cast<float>(x[at]) - mean[group]) * inverse, static_cast<float>(dy[at])};
  }
  HETPIPE_DEVICE void add(Nothing, std::int64_t, const Loaded& loaded,
                          float (&sums)[kSums][1]) const {
    sums[0][0] += loaded.dy * loaded.normalised;
    sums[1][0] += loaded.dy;
  }
};

HETPIPE_DEVICE float rms_factor(const float* scale, bool one_plus, std::int64_t f) {
  return scale == nullptr ? 1 : scale[f] + (one_plus ? 1.0f : 0.0f);
}

template <class T>
struct RmsNormRows {
  RmsNormSizes s;
  const T* x;
  const float* scale;
  T* y;
  float* square;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t at = row * s.features;
    RowPacks<T, V, held> own(x + at);
    form.for_packs(s.features, [&](int p, std::int64_t first) { own.read(p, first); });
    float sum = 0;
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      for (int v = 0; v < V; ++v) {
        sum += static_cast<float>(pack.at[v]) * static_cast<float>(pack.at[v]);
      }
    });
    const float mean = team_reduce<kTeam>(sum, Plus{}) / static_cast<float>(s.features);
    const float inverse = 1 / sqrtf(mean + s.epsilon);
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      Pack<T, V> out{};
      for (int v = 0; v < V; ++v) {
        out.at[v] = static_cast<T>(static_cast<float>(pack.at[v]) * inverse *
                                   rms_factor(scale, s.one_plus, first + v));
      }
      store_pack(y + at + first, out);
    });
    if (square != nullptr && threadIdx.x % kTeam == 0) square[row] = mean;
  }
};

template <class T>
struct RmsNormInputGradients {
  RmsNormSizes s;
  const T* x;
  const float* square;
  const float* scale;
  const T* dy;
  T* dx;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t at = row * s.features;
    const float inverse = 1 / sqrtf(square[row] + s.epsilon);
    RowPacks<T, V, held> xs(x + at), dys(dy + at);
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      xs.read(p, first);
      dys.read(p, first);
    });
    float sum = 0;
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto a = xs.get(p, first), b = dys.get(p, first);
      for (int v = 0; v < V; ++v) {
        sum += static_cast<float>(b.at[v]) * rms_factor(scale, s.one_plus, first + v) *
               (static_cast<float>(a.at[v]) * inverse);
      }
    });
    const float slope = team_reduce<kTeam>(sum, Plus{}) / static_cast<float>(s.features);
    form.for_packs(s.features, [&](int p, std::int64_t first) {
      const auto a = xs.get(p, first), b = dys.get(p, first);
      Pack<T, V> out{};
      for (int v = 0; v < V; ++v) {
        const float g = static_cast<float>(b.at[v]) * rms_factor(scale, s.one_plus, first + v);
        out.at[v] = static_cast<T>(inverse * (g - static_cast<float>(a.at[v]) * inverse * slope));
      }
      store_pack(dx + at + first, out);
    });
  }
};

template <class T>
struct RmsTerms {
  static constexpr int kSums = 1;
  static constexpr int kGroup = 4;
  struct Nothing {};

  RmsNormSizes s;
  const T* x;
  const float* square;
  const T* dy;

  HETPIPE_DEVICE Nothing columns(std::int64_t) const { return {}; }
  HETPIPE_DEVICE float load(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * s.features + column;
    return static_cast<float>(dy[at]) *
           (static_cast<float>(x[at]) / sqrtf(square[row] + s.epsilon));
  }
  HETPIPE_DEVICE void add(Nothing, std::int64_t, float loaded, float (&sums)[kSums][1]) const {
    sums[0][0] += loaded;
  }
};

}  // namespace

template <class T>
void group_norm_forward(const GroupNormSizes& s, const T* x, const float* scale, const float* shift,
                        T* y, float* mean, float* variance, On on) {
  launch(group_norm_kernel<T>, one_each(s.batch * s.groups), kGroupThreads, on, s, x, scale, shift,
         y, mean, variance);
}

template <class T>
void group_norm_input_gradient(const GroupNormSizes& s, const T* x, const float* mean,
                               const float* variance, const float* scale, const T* dy, T* dx,
                               On on) {
  launch(group_norm_gradient_kernel<T>, one_each(s.batch * s.groups), kGroupThreads, on, s, x, mean,
         variance, scale, dy, dx);
}

template <class T>
std::size_t group_norm_scratch_bytes(const GroupNormSizes& s) {
  return sum_columns_scratch_bytes<T, 2>(s.batch * s.pixels, s.channels);
}

template <class T>
void group_norm_parameter_gradients(const GroupNormSizes& s, const T* x, const float* mean,
                                    const float* variance, const T* dy, float* dscale,
                                    float* dshift, void* scratch, On on) {
  sum_columns<1>(s.batch * s.pixels, s.channels, GroupTerms<T>{s, x, mean, variance, dy}, scratch,
                 dscale, dshift, on);
}

template <class T>
void rms_norm_forward(const RmsNormSizes& s, const T* x, const float* scale, T* y, float* square,
                      On on) {
  launch_rows<T>(s.rows, s.features, moves_in_packs<T>(s.features, {x, y}),
                 RmsNormRows<T>{s, x, scale, y, square}, on);
}

template <class T>
void rms_norm_input_gradient(const RmsNormSizes& s, const T* x, const float* square,
                             const float* scale, const T* dy, T* dx, On on) {
  launch_rows<T>(s.rows, s.features, moves_in_packs<T>(s.features, {x, dy, dx}),
                 RmsNormInputGradients<T>{s, x, square, scale, dy, dx}, on);
}

template <class T>
std::size_t rms_norm_scratch_bytes(const RmsNormSizes& s) {
  return sum_columns_scratch_bytes<T, 1>(s.rows, s.features);
}

template <class T>
void rms_norm_scale_gradient(const RmsNormSizes& s, const T* x, const float* square, const T* dy,
                             float* dscale, void* scratch, On on) {
  sum_columns<1>(s.rows, s.features, RmsTerms<T>{s, x, square, dy}, scratch, dscale, nullptr, on);
}

#define HETPIPE_GROUP_NORM(T)                                                                      \
  template void group_norm_forward(const GroupNormSizes&, const T*, const float*, const float*,    \
                                   T*, float*, float*, On);                                        \
  template void group_norm_input_gradient(const GroupNormSizes&, const T*, const float*,           \
                                          const float*, const float*, const T*, T*, On);           \
  template std::size_t group_norm_scratch_bytes<T>(const GroupNormSizes&);                         \
  template void group_norm_parameter_gradients(const GroupNormSizes&, const T*, const float*,      \
                                               const float*, const T*, float*, float*, void*, On); \
  template void rms_norm_forward(const RmsNormSizes&, const T*, const float*, T*, float*, On);     \
  template void rms_norm_input_gradient(const RmsNormSizes&, const T*, const float*, const float*, \
                                        const T*, T*, On);                                         \
  template std::size_t rms_norm_scratch_bytes<T>(const RmsNormSizes&);                             \
  template void rms_norm_scale_gradient(const RmsNormSizes&, const T*, const float*, const T*,     \
                                        float*, void*, On);
HETPIPE_GROUP_NORM(float)
HETPIPE_GROUP_NORM(Bf16)
HETPIPE_GROUP_NORM(Fp16)

}  // namespace hetpipe::cuda
