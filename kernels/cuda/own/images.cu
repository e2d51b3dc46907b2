// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/images.h"

#include <cmath>

#include "kernels/cuda/own/pack.h"

namespace hetpipe::cuda {
namespace {

// Pixels of images of so many rows and columns, a pack of whose channels a thread treats.
struct Pixels {
  std::int64_t rows, columns, channels, packs;

  Pixels(std::int64_t r, std::int64_t c, std::int64_t ch, int pack)
      : rows(r), columns(c), channels(ch), packs((ch + pack - 1) / pack) {}
  std::int64_t threads(std::int64_t samples) const { return samples * rows * columns * packs; }
  HETPIPE_DEVICE std::int64_t at(std::int64_t sample, std::int64_t row, std::int64_t column,
                                 std::int64_t channel) const {
    return ((sample * rows + row) * columns + column) * channels + channel;
  }
};
struct PixelPlace {
  std::int64_t channel, sample, row, column;

  HETPIPE_DEVICE PixelPlace(std::int64_t i, const Pixels& p, int pack) {
    channel = i % p.packs * pack;
    std::int64_t pixel = i / p.packs;
    column = pixel % p.columns;
    pixel /= p.columns;
    row = pixel % p.rows;
    sample = pixel / p.rows;
  }
};

template <int pack, class T>
HETPIPE_DEVICE void add_weighted(float (&sum)[pack], float weight, const T* from,
                                 std::int64_t left) {
  const auto values = load<pack>(from, left);
  HETPIPE_UNROLL
  for (int k = 0; k < pack; ++k) sum[k] += weight * static_cast<float>(values.at[k]);
}
template <int pack, class T>
HETPIPE_DEVICE void store_rounded(const float (&sum)[pack], T* to, std::int64_t left) {
  Pack<T, pack> rounded;
  HETPIPE_UNROLL
  for (int k = 0; k < pack; ++k) rounded.at[k] = T(sum[k]);
  store(to, rounded, left);
}

template <class T>
struct ResizeForward {
  static constexpr int pack = kPack<T>;
  ResizeAxis rows, columns;
  Pixels in, out;
  const T* x;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const PixelPlace o(i, out, pack);
    const std::int64_t left = out.channels - o.channel;
    const ResizePlace row = rows.place(o.row), column = columns.place(o.column);
    float sum[pack] = {};
    const auto add = [&](std::int64_t h, std::int64_t w, float weight) {
      if (weight != 0) add_weighted(sum, weight, x + in.at(o.sample, h, w, o.channel), left);
    };
    add(row.low, column.low, row.low_weight * column.low_weight);
    add(row.low, column.high, row.low_weight * column.high_weight);
    add(row.high, column.low, row.high_weight * column.low_weight);
    add(row.high, column.high, row.high_weight * column.high_weight);
    store_rounded(sum, y + out.at(o.sample, o.row, o.column, o.channel), left);
  }
};

// Places of the output that may read place p: those whose source lies within one of it.
struct Readers {
  std::int64_t first = 0, end = 0;

  HETPIPE_DEVICE Readers(const ResizeAxis& axis, std::int64_t p) : end(axis.output) {
    if (axis.input == axis.output) {
      first = p;
      end = p + 1;
    } else if (axis.step > 0) {
      const float from = (static_cast<float>(p) - 1) / axis.step - 2;
      const float to = (static_cast<float>(p) + 2) / axis.step + 2;
      if (from > 0) first = static_cast<std::int64_t>(from);
      // The last place is read by all that would read beyond it.
      if (p < axis.input - 1 && to < static_cast<float>(end)) {
        end = static_cast<std::int64_t>(to) + 1;
      }
    }
  }
};
// What a place of the output takes of place p.
HETPIPE_DEVICE float taken(const ResizePlace& from, std::int64_t p) {
  return (from.low == p ? from.low_weight : 0.0f) + (from.high == p ? from.high_weight : 0.0f);
}

template <class T>
struct ResizeBackward {
  static constexpr int pack = kPack<T>;
  ResizeAxis rows, columns;
  Pixels in, out;
  const T* dy;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const PixelPlace at(i, in, pack);
    const std::int64_t left = in.channels - at.channel;
    const Readers down(rows, at.row), across(columns, at.column);
    float sum[pack] = {};
    for (std::int64_t oh = down.first; oh < down.end; ++oh) {
      const float row = taken(rows.place(oh), at.row);
      if (row == 0) continue;
      for (std::int64_t ow = across.first; ow < across.end; ++ow) {
        const float weight = row * taken(columns.place(ow), at.column);
        if (weight == 0) continue;
        add_weighted(sum, weight, dy + out.at(at.sample, oh, ow, at.channel), left);
      }
    }
    store_rounded(sum, dx + in.at(at.sample, at.row, at.column, at.channel), left);
  }
};

// Places [begin, end) of an axis that window i averages, and the windows [first, last] over one.
HETPIPE_DEVICE std::int64_t window_begin(std::int64_t i, std::int64_t windows,
                                         std::int64_t extent) {
  return i * extent / windows;
}
HETPIPE_DEVICE std::int64_t window_end(std::int64_t i, std::int64_t windows, std::int64_t extent) {
  return ((i + 1) * extent + windows - 1) / windows;
}

template <class T, bool maximum>
struct AdaptiveForward {
  static constexpr int pack = kPack<T>;
  Pixels in, out;
  const T* x;
  T* y;
  std::int32_t* winner;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const PixelPlace o(i, out, pack);
    const std::int64_t left = out.channels - o.channel;
    const std::int64_t h0 = window_begin(o.row, out.rows, in.rows);
    const std::int64_t h1 = window_end(o.row, out.rows, in.rows);
    const std::int64_t w0 = window_begin(o.column, out.columns, in.columns);
    const std::int64_t w1 = window_end(o.column, out.columns, in.columns);
    float result[pack] = {};
    Pack<std::int32_t, pack> places{};
    for (std::int64_t h = h0; h < h1; ++h) {
      for (std::int64_t w = w0; w < w1; ++w) {
        const auto values = load<pack>(x + in.at(o.sample, h, w, o.channel), left);
        const bool first = h == h0 && w == w0;
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) {
          const auto value = static_cast<float>(values.at[k]);
          if constexpr (!maximum) {
            result[k] += value;
          } else if (first || value > result[k] || value != value) {
            result[k] = value;
            places.at[k] = static_cast<std::int32_t>(h * in.columns + w);
          }
        }
      }
    }
    if constexpr (!maximum) {
      const auto area = static_cast<float>((h1 - h0) * (w1 - w0));
      HETPIPE_UNROLL
      for (int k = 0; k < pack; ++k) result[k] /= area;
    }
    const std::int64_t to = out.at(o.sample, o.row, o.column, o.channel);
    store_rounded(result, y + to, left);
    if (maximum && winner != nullptr) {
      HETPIPE_UNROLL
      for (int k = 0; k < pack; ++k) {
        if (k < left) winner[to + k] = places.at[k];
      }
    }
  }
};

template <class T, bool maximum>
struct AdaptiveBackward {
  static constexpr int pack = kPack<T>;
  Pixels in, out;
  const T* dy;
  const std::int32_t* winner;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const PixelPlace at(i, in, pack);
    const std::int64_t left = in.channels - at.channel;
    const auto pixel = static_cast<std::int32_t>(at.row * in.columns + at.column);
    float sum[pack] = {};
    for (std::int64_t oh = at.row * out.rows / in.rows; oh < window_end(at.row, in.rows, out.rows);
         ++oh) {
      for (std::int64_t ow = at.column * out.columns / in.columns;
           ow < window_end(at.column, in.columns, out.columns); ++ow) {
        const std::int64_t from = out.at(at.sample, oh, ow, at.channel);
        const auto gradient = load<pack>(dy + from, left);
        const auto area = static_cast<float>(
            (window_end(oh, out.rows, in.rows) - window_begin(oh, out.rows, in.rows)) *
            (window_end(ow, out.columns, in.columns) - window_begin(ow, out.columns, in.columns)));
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) {
          const auto g = static_cast<float>(gradient.at[k]);
          if constexpr (maximum) {
            if (k < left && winner[from + k] == pixel) sum[k] += g;
          } else {
            sum[k] += g / area;
          }
        }
      }
    }
    store_rounded(sum, dx + in.at(at.sample, at.row, at.column, at.channel), left);
  }
};

}  // namespace

template <class T>
void resize_forward(const ResizeAxis& rows, const ResizeAxis& columns, const Shape& in, const T* x,
                    T* y, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>),
      to(rows.output, columns.output, in[3], kPack<T>);
  each<1>(ResizeForward<T>{rows, columns, from, to, x, y}, to.threads(in[0]), on);
}
template <class T>
void resize_backward(const ResizeAxis& rows, const ResizeAxis& columns, const Shape& in,
                     const T* dy, T* dx, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>),
      to(rows.output, columns.output, in[3], kPack<T>);
  each<1>(ResizeBackward<T>{rows, columns, from, to, dy, dx}, from.threads(in[0]), on);
}
template <class T>
void adaptive_average_forward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* x,
                              T* y, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>), to(rows, columns, in[3], kPack<T>);
  each<1>(AdaptiveForward<T, false>{from, to, x, y, nullptr}, to.threads(in[0]), on);
}
template <class T>
void adaptive_average_backward(std::int64_t rows, std::int64_t columns, const Shape& in,
                               const T* dy, T* dx, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>), to(rows, columns, in[3], kPack<T>);
  each<1>(AdaptiveBackward<T, false>{from, to, dy, nullptr, dx}, from.threads(in[0]), on);
}
template <class T>
void adaptive_max_forward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* x,
                          T* y, std::int32_t* winner, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>), to(rows, columns, in[3], kPack<T>);
  each<1>(AdaptiveForward<T, true>{from, to, x, y, winner}, to.threads(in[0]), on);
}
template <class T>
void adaptive_max_backward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* dy,
                           const std::int32_t* winner, T* dx, On on) {
  const Pixels from(in[1], in[2], in[3], kPack<T>), to(rows, columns, in[3], kPack<T>);
  each<1>(AdaptiveBackward<T, true>{from, to, dy, winner, dx}, from.threads(in[0]), on);
}

#define HETPIPE_IMAGES(T)                                                                         \
  template void resize_forward(const ResizeAxis&, const ResizeAxis&, const Shape&, const T*, T*,  \
                               On);                                                               \
  template void resize_backward(const ResizeAxis&, const ResizeAxis&, const Shape&, const T*, T*, \
                                On);                                                              \
  template void adaptive_average_forward(std::int64_t, std::int64_t, const Shape&, const T*, T*,  \
                                         On);                                                     \
  template void adaptive_average_backward(std::int64_t, std::int64_t, const Shape&, const T*, T*, \
                                          On);                                                    \
  template void adaptive_max_forward(std::int64_t, std::int64_t, const Shape&, const T*, T*,      \
                                     std::int32_t*, On);                                          \
  template void adaptive_max_backward(std::int64_t, std::int64_t, const Shape&, const T*,         \
                                      const std::int32_t*, T*, On);
HETPIPE_IMAGES(float)
HETPIPE_IMAGES(Bf16)
HETPIPE_IMAGES(Fp16)

}  // namespace hetpipe::cuda
