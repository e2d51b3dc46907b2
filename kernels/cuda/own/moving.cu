// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/moving.h"

#include "kernels/cuda/own/pack.h"

namespace hetpipe::cuda {
namespace {

// y (batch, columns, rows) = x (batch, rows, columns) turned, tile by tile by way of shared memory,
// whose odd row length keeps a column's elements in different banks.
constexpr int kTile = 32;
constexpr int kTileRows = 8;  // that the block's threads reach at once

template <class T>
HETPIPE_KERNEL void transpose_kernel(std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;
  HETPIPE_SHARED(tile, Bits[kTile][kTile + 1]);
  const std::int64_t down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  const std::int64_t matrix = blockIdx.x / (down * across) * rows * columns;
  const std::int64_t r0 = blockIdx.x / across % down * kTile, c0 = blockIdx.x % across * kTile;
  const int lane = static_cast<int>(threadIdx.x), row = static_cast<int>(threadIdx.y);
  HETPIPE_UNROLL
  for (int r = row; r < kTile; r += kTileRows) {
    if (r0 + r < rows && c0 + lane < columns) {
      tile[r][lane] = std::bit_cast<Bits>(x[matrix + (r0 + r) * columns + c0 + lane]);
    }
  }
  __syncthreads();
  HETPIPE_UNROLL
  for (int c = row; c < kTile; c += kTileRows) {
    if (c0 + c < columns && r0 + lane < rows) {
      y[matrix + (c0 + c) * rows + r0 + lane] = std::bit_cast<T>(tile[lane][c]);
    }
  }
}

template <class T>
void transpose(std::int64_t batch, std::int64_t rows, std::int64_t columns, const T* x, T* y,
               On on) {
  const std::int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  if (tiles == 0) return;
  launch(transpose_kernel<T>, one_each(tiles), dim3(kTile, kTileRows), on, rows, columns, x, y);
}

// Rows of `channels` between arrays of other row lengths, a pack of channels per thread.
template <class T>
struct CopyRows {
  static constexpr int pack = kPack<T>;
  std::int64_t channels, packs, from_length, to_length;
  const T* from;
  T* to;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t row = i / packs, channel = i % packs * pack, left = channels - channel;
    store(to + row * to_length + channel, load<pack>(from + row * from_length + channel, left),
          left);
  }
};

template <class T>
void copy_rows(std::int64_t rows, std::int64_t channels, std::int64_t from_length,
               std::int64_t to_length, const T* from, T* to, On on) {
  const std::int64_t packs = (channels + kPack<T> - 1) / kPack<T>;
  each<1>(CopyRows<T>{channels, packs, from_length, to_length, from, to}, rows * packs, on);
}

template <class T>
struct ShiftPixels {
  static constexpr int pack = kPack<T>;
  std::int64_t height, width, channels, packs, rows, columns;
  const T* x;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t pixel = i / packs, channel = i % packs * pack, left = channels - channel;
    const std::int64_t w = pixel % width + columns, h = pixel / width % height + rows;
    Pack<T, pack> values{};
    if (h >= 0 && h < height && w >= 0 && w < width) {
      values = load<pack>(x + (pixel + rows * width + columns) * channels + channel, left);
    }
    store(y + pixel * channels + channel, values, left);
  }
};

}  // namespace

template <class T>
void flatten_forward(const Shape& in, const T* x, T* y, On on) {
  transpose(in[0], in[1] * in[2], in[3], x, y, on);
}
template <class T>
void flatten_backward(const Shape& in, const T* dy, T* dx, On on) {
  transpose(in[0], in[3], in[1] * in[2], dy, dx, on);
}

template <class T>
void concat_forward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                    const T* x, T* y, On on) {
  copy_rows(rows, channels, channels, all, x, y + first, on);
}
template <class T>
void concat_backward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                     const T* dy, T* dx, On on) {
  copy_rows(rows, channels, all, channels, dy + first, dx, on);
}

template <class T>
void shift(const Shape& in, std::int64_t rows, std::int64_t columns, const T* x, T* y, On on) {
  const std::int64_t packs = (in[3] + kPack<T> - 1) / kPack<T>;
  each<1>(ShiftPixels<T>{in[1], in[2], in[3], packs, rows, columns, x, y},
          in[0] * in[1] * in[2] * packs, on);
}

#define HETPIPE_MOVING(T)                                                                         \
  template void flatten_forward(const Shape&, const T*, T*, On);                                  \
  template void flatten_backward(const Shape&, const T*, T*, On);                                 \
  template void concat_forward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*,  \
                               T*, On);                                                           \
  template void concat_backward(std::int64_t, std::int64_t, std::int64_t, std::int64_t, const T*, \
                                T*, On);                                                          \
  template void shift(const Shape&, std::int64_t, std::int64_t, const T*, T*, On);
HETPIPE_MOVING(float)
HETPIPE_MOVING(Bf16)
HETPIPE_MOVING(Fp16)

}  // namespace hetpipe::cuda
