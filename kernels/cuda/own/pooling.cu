// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pooling.h"

#include "kernels/cuda/own/pack.h"

namespace hetpipe::cuda {
namespace {

// Along rows or columns; int, as its arithmetic stands in the innermost loops.
struct Side {
  int extent, positions, kernel, stride, padding, dilation;

  Side(const WindowSide& side, std::int64_t in)
      : extent(static_cast<int>(in)),
        positions(static_cast<int>(side.positions(in))),
        kernel(static_cast<int>(side.kernel)),
        stride(static_cast<int>(side.stride)),
        padding(static_cast<int>(side.padding)),
        dilation(static_cast<int>(side.dilation)) {}

  // Offsets [begin, end) of the window at `position` inside the image, as WindowSide's.
  HETPIPE_DEVICE int begin(int position) const { return taps_before(padding - position * stride); }
  HETPIPE_DEVICE int end(int position) const {
    return std::min(kernel, taps_before(extent + padding - position * stride));
  }
  HETPIPE_DEVICE int at(int position, int offset) const {
    return position * stride - padding + offset * dilation;
  }
  // Places of the window at `position` inside the padded image; without dilation.
  HETPIPE_DEVICE int padded(int position) const {
    return std::min(kernel, extent + 2 * padding - position * stride);
  }
  // Positions [first, last] between whose first and last tap `place` lies: 0 <= place + padding -
  // position * stride <= dilation * (kernel - 1).
  HETPIPE_DEVICE int first_over(int place) const {
    const int beyond = place + padding - dilation * (kernel - 1) - 1;
    return beyond < 0 ? 0 : beyond / stride + 1;
  }
  HETPIPE_DEVICE int last_over(int place) const {
    return std::min(positions - 1, (place + padding) / stride);
  }
  // The tap of the window at `position` that lies at `place`; -1: it lies between two.
  HETPIPE_DEVICE int offset(int position, int place) const {
    const int distance = place + padding - position * stride;
    if (dilation == 1) return distance;
    return distance % dilation == 0 ? distance / dilation : -1;
  }

 private:
  // How many taps lie less than `distance` behind the first.
  HETPIPE_DEVICE int taps_before(int distance) const {
    if (distance <= 0) return 0;
    return dilation == 1 ? distance : (distance + dilation - 1) / dilation;
  }
};

struct Pool {
  Side rows, columns;
  std::int64_t samples, channels, packs;  // packs of channels in a pixel

  Pool(const Window& window, const Shape& in, int pack)
      : rows(window.rows, in[1]),
        columns(window.columns, in[2]),
        samples(in[0]),
        channels(in[3]),
        packs((in[3] + pack - 1) / pack) {}

  std::int64_t outputs() const { return samples * rows.positions * columns.positions * packs; }
  std::int64_t inputs() const { return samples * rows.extent * columns.extent * packs; }

  // Where a pixel's channels start.
  HETPIPE_DEVICE std::int64_t input(std::int64_t sample, int row, int column) const {
    return ((sample * rows.extent + row) * columns.extent + column) * channels;
  }
  HETPIPE_DEVICE std::int64_t output(std::int64_t sample, int row, int column) const {
    return ((sample * rows.positions + row) * columns.positions + column) * channels;
  }
};

// Which pack of which pixel a thread treats.
struct Place {
  std::int64_t channel, sample;
  int row, column;

  // Divisions of 64 bits, which are not the hardware's, only where there is so much.
  HETPIPE_DEVICE Place(std::int64_t i, std::int64_t packs, int pack, int rows, int columns) {
    if (i <= std::numeric_limits<std::uint32_t>::max()) {
      split(static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(packs), pack,
            static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns));
    } else {
      split(i, packs, pack, std::int64_t{rows}, std::int64_t{columns});
    }
  }

 private:
  template <class Int>
  HETPIPE_DEVICE void split(Int i, Int packs, int pack, Int rows, Int columns) {
    const Int pixel = i / packs, line = pixel / columns;
    channel = static_cast<std::int64_t>(i - pixel * packs) * pack;
    column = static_cast<int>(pixel - line * columns);
    sample = line / rows;
    row = static_cast<int>(line - static_cast<Int>(sample) * rows);
  }
};

template <class T>
struct MaxForward {
  static constexpr int pack = kPack<T>;
  Pool p;
  const T* x;
  T* y;
  std::uint8_t* winner;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const Place o(i, p.packs, pack, p.rows.positions, p.columns.positions);
    const std::int64_t left = p.channels - o.channel;
    float best[pack] = {};
    Pack<std::uint8_t, pack> places{};
    bool first = true;
    const int kh_end = p.rows.end(o.row), kw_begin = p.columns.begin(o.column),
              kw_end = p.columns.end(o.column);
    const std::int64_t tap = p.columns.dilation * p.channels;  // from one to the next
    for (int kh = p.rows.begin(o.row); kh < kh_end; ++kh) {
      const T* from =
          x + p.input(o.sample, p.rows.at(o.row, kh), p.columns.at(o.column, kw_begin)) + o.channel;
      for (int kw = kw_begin; kw < kw_end; ++kw, from += tap) {
        const auto values = load<pack>(from, left);
        const auto place = static_cast<std::uint8_t>(kh * p.columns.kernel + kw);
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) {
          const auto value = static_cast<float>(values.at[k]);
          if (first || value > best[k] || value != value) {
            best[k] = value;
            places.at[k] = place;
          }
        }
        first = false;
      }
    }
    const std::int64_t to = p.output(o.sample, o.row, o.column) + o.channel;
    Pack<T, pack> largest;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) largest.at[k] = T(best[k]);
    store(y + to, largest, left);
    if (winner != nullptr) store(winner + to, places, left);
  }
};

template <class T>
struct MaxBackward {
  static constexpr int pack = kPack<T>;
  Pool p;
  const T* dy;
  const std::uint8_t* winner;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const Place at(i, p.packs, pack, p.rows.extent, p.columns.extent);
    const std::int64_t left = p.channels - at.channel;
    float sum[pack] = {};
    const int oh_last = p.rows.last_over(at.row), ow_first = p.columns.first_over(at.column),
              ow_last = p.columns.last_over(at.column);
    for (int oh = p.rows.first_over(at.row); oh <= oh_last; ++oh) {
      const int row_tap = p.rows.offset(oh, at.row);
      if (row_tap < 0) continue;
      for (int ow = ow_first; ow <= ow_last; ++ow) {
        const int column_tap = p.columns.offset(ow, at.column);
        if (column_tap < 0) continue;
        const std::int64_t from = p.output(at.sample, oh, ow) + at.channel;
        const int place = row_tap * p.columns.kernel + column_tap;
        const auto winners = load<pack>(winner + from, left);
        const auto gradient = load<pack>(dy + from, left);
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) {
          if (winners.at[k] == place) sum[k] += static_cast<float>(gradient.at[k]);
        }
      }
    }
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = T(sum[k]);
    store(dx + p.input(at.sample, at.row, at.column) + at.channel, to, left);
  }
};

// What the window at (row, column) of the output is divided by.
HETPIPE_DEVICE float places_averaged(const Pool& p, bool count_padding, int row, int column) {
  const int rows = p.rows.end(row) - p.rows.begin(row);
  const int columns = p.columns.end(column) - p.columns.begin(column);
  return static_cast<float>(count_padding ? p.rows.padded(row) * p.columns.padded(column)
                                          : rows * columns);
}

template <class T>
struct AverageForward {
  static constexpr int pack = kPack<T>;
  Pool p;
  bool count_padding;
  const T* x;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const Place o(i, p.packs, pack, p.rows.positions, p.columns.positions);
    const std::int64_t left = p.channels - o.channel;
    float sum[pack] = {};
    for (int kh = p.rows.begin(o.row); kh < p.rows.end(o.row); ++kh) {
      for (int kw = p.columns.begin(o.column); kw < p.columns.end(o.column); ++kw) {
        const auto values = load<pack>(
            x + p.input(o.sample, p.rows.at(o.row, kh), p.columns.at(o.column, kw)) + o.channel,
            left);
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) sum[k] += static_cast<float>(values.at[k]);
      }
    }
    const float area = places_averaged(p, count_padding, o.row, o.column);
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = T(sum[k] / area);
    store(y + p.output(o.sample, o.row, o.column) + o.channel, to, left);
  }
};

template <class T>
struct AverageBackward {
  static constexpr int pack = kPack<T>;
  Pool p;
  bool count_padding;
  const T* dy;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const Place at(i, p.packs, pack, p.rows.extent, p.columns.extent);
    const std::int64_t left = p.channels - at.channel;
    float sum[pack] = {};
    for (int oh = p.rows.first_over(at.row); oh <= p.rows.last_over(at.row); ++oh) {
      for (int ow = p.columns.first_over(at.column); ow <= p.columns.last_over(at.column); ++ow) {
        const auto gradient = load<pack>(dy + p.output(at.sample, oh, ow) + at.channel, left);
        const float area = places_averaged(p, count_padding, oh, ow);
        HETPIPE_UNROLL
        for (int k = 0; k < pack; ++k) sum[k] += static_cast<float>(gradient.at[k]) / area;
      }
    }
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = T(sum[k]);
    store(dx + p.input(at.sample, at.row, at.column) + at.channel, to, left);
  }
};

// Half as wide as elsewhere: there are only as many threads as packs of channels.
template <class T>
inline constexpr int kMeanPack = kPack<T> / 2;

template <class T>
struct GlobalForward {
  static constexpr int pack = kMeanPack<T>;
  std::int64_t pixels, channels, packs;
  const T* x;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / packs, channel = i % packs * pack, left = channels - channel;
    const T* from = x + sample * pixels * channels + channel;
    double sum[pack] = {};
    for (std::int64_t p = 0; p < pixels; ++p, from += channels) {
      const auto values = load<pack>(from, left);
      HETPIPE_UNROLL
      for (int k = 0; k < pack; ++k) {
        sum[k] += static_cast<double>(static_cast<float>(values.at[k]));
      }
    }
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) {
      to.at[k] = T(static_cast<float>(sum[k] / static_cast<double>(pixels)));
    }
    store(y + sample * channels + channel, to, left);
  }
};

template <class T>
struct GlobalBackward {
  static constexpr int pack = kPack<T>;
  std::int64_t pixels, channels, packs;
  const T* dy;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t pixel = i / packs, channel = i % packs * pack, left = channels - channel;
    const auto gradient = load<pack>(dy + pixel / pixels * channels + channel, left);
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) {
      to.at[k] = T(static_cast<float>(gradient.at[k]) / static_cast<float>(pixels));
    }
    store(dx + pixel * channels + channel, to, left);
  }
};

}  // namespace

template <class T>
void max_pool_forward(const Window& window, const Shape& in, const T* x, T* y, std::uint8_t* winner,
                      On on) {
  const Pool p(window, in, kPack<T>);
  each<1>(MaxForward<T>{p, x, y, winner}, p.outputs(), on);
}
template <class T>
void max_pool_backward(const Window& window, const Shape& in, const T* dy,
                       const std::uint8_t* winner, T* dx, On on) {
  const Pool p(window, in, kPack<T>);
  each<1>(MaxBackward<T>{p, dy, winner, dx}, p.inputs(), on);
}

template <class T>
void average_pool_forward(const Window& window, const Shape& in, bool count_padding, const T* x,
                          T* y, On on) {
  const Pool p(window, in, kPack<T>);
  each<1>(AverageForward<T>{p, count_padding, x, y}, p.outputs(), on);
}
template <class T>
void average_pool_backward(const Window& window, const Shape& in, bool count_padding, const T* dy,
                           T* dx, On on) {
  const Pool p(window, in, kPack<T>);
  each<1>(AverageBackward<T>{p, count_padding, dy, dx}, p.inputs(), on);
}

template <class T>
void global_average_pool_forward(const Shape& in, const T* x, T* y, On on) {
  const std::int64_t packs = (in[3] + kMeanPack<T> - 1) / kMeanPack<T>;
  each<1>(GlobalForward<T>{in[1] * in[2], in[3], packs, x, y}, in[0] * packs, on);
}
template <class T>
void global_average_pool_backward(const Shape& in, const T* dy, T* dx, On on) {
  const std::int64_t packs = (in[3] + kPack<T> - 1) / kPack<T>;
  each<1>(GlobalBackward<T>{in[1] * in[2], in[3], packs, dy, dx}, in[0] * in[1] * in[2] * packs,
          on);
}

#define HETPIPE_POOLING(T)                                                                        \
  template void max_pool_forward(const Window&, const Shape&, const T*, T*, std::uint8_t*, On);   \
  template void max_pool_backward(const Window&, const Shape&, const T*, const std::uint8_t*, T*, \
                                  On);                                                            \
  template void average_pool_forward(const Window&, const Shape&, bool, const T*, T*, On);        \
  template void average_pool_backward(const Window&, const Shape&, bool, const T*, T*, On);       \
  template void global_average_pool_forward(const Shape&, const T*, T*, On);                      \
  template void global_average_pool_backward(const Shape&, const T*, T*, On);
HETPIPE_POOLING(float)
HETPIPE_POOLING(Bf16)
HETPIPE_POOLING(Fp16)

}  // namespace hetpipe::cuda
