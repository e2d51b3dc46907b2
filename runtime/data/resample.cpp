// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/data/image.h"

namespace hetpipe {
namespace {

constexpr int kWeightBits = 22;  // as Pillow's: 32 less 8 of a pixel and 2 of overshoot
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

// What output pixels along a side take of the input.
struct Taps {
  struct Pixel {
    int first = 0;
    int count = 0;
  };
  std::vector<Pixel> pixels;
  int most = 0;                       // of one
  std::vector<std::int32_t> weights;  // [pixel][most]
};

// Side [from, to) of an input of `size` pixels, as `count` pixels.
Taps taps_of(int size, double from, double to, int count) {
  const double scale = (to - from) / count;
  const double reach = std::max(scale, 1.0);
  Taps taps;
  taps.most = static_cast<int>(std::ceil(reach)) * 2 + 1;
  taps.weights.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(taps.most));
  std::vector<double> raw(static_cast<std::size_t>(taps.most));
  for (int i = 0; i < count; ++i) {
    const double center = from + (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - reach + 0.5));
    const int end = std::min(size, static_cast<int>(center + reach + 0.5));
    double sum = 0;
    for (int p = first; p < end; ++p) {
      const double away = std::abs((p - center + 0.5) * (1.0 / reach));
      sum += raw[static_cast<std::size_t>(p - first)] = away < 1 ? 1 - away : 0;
    }
    std::int32_t* const to_weights = &taps.weights[static_cast<std::size_t>(i * taps.most)];
    for (int p = 0; p < end - first; ++p) {
      const double weight = raw[static_cast<std::size_t>(p)] / (sum == 0 ? 1 : sum);
      to_weights[p] = static_cast<std::int32_t>(0.5 + weight * (1 << kWeightBits));
    }
    taps.pixels.push_back({first, end - first});
  }
  return taps;
}

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

template <int kChannels>
void along_row(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  const std::int32_t* weights = taps.weights.data();
  for (const Taps::Pixel& pixel : taps.pixels) {
    std::int32_t sum[kChannels];
    std::fill(sum, sum + kChannels, kHalf);
    const std::uint8_t* from = in + pixel.first * kChannels;
    for (int t = 0; t < pixel.count; ++t) {
      for (int c = 0; c < kChannels; ++c) sum[c] += from[t * kChannels + c] * weights[t];
    }
    for (int c = 0; c < kChannels; ++c) *out++ = rounded(sum[c]);
    weights += taps.most;
  }
}

}  // namespace

Image resampled(const Image& image, Box box, int height, int width) {
  ensure(image.channels == 1 || image.channels == 3, "an image is grey or RGB");
  const Taps across = taps_of(image.width, box.left, box.left + box.width, width);
  const Taps down = taps_of(image.height, box.top, box.top + box.height, height);
  const int top = down.pixels.front().first;
  const int bottom = down.pixels.back().first + down.pixels.back().count;
  const std::size_t row =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(image.channels);
  const std::size_t row_in =
      static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  // A side that keeps its pixels is not touched, as in Pillow.
  const bool keeps_columns = width == image.width && box.left == 0 && box.width == width;
  const bool keeps_rows = height == image.height && box.top == 0 && box.height == height;
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>(bottom - top) * row);
  for (int y = top; y < bottom; ++y) {
    const std::uint8_t* const in = &image.pixels[static_cast<std::size_t>(y) * row_in];
    std::uint8_t* const out = &narrow[static_cast<std::size_t>(y - top) * row];
    if (keeps_columns) {
      std::copy_n(in, row, out);
    } else {
      image.channels == 1 ? along_row<1>(in, across, out) : along_row<3>(in, across, out);
    }
  }
  if (keeps_rows) return {height, width, image.channels, std::move(narrow)};
  Image result{height, width, image.channels, {}};
  result.pixels.resize(static_cast<std::size_t>(height) * row);
  std::vector<std::int32_t> sum(row);
  for (std::size_t y = 0; y < down.pixels.size(); ++y) {
    const Taps::Pixel& pixel = down.pixels[y];
    std::fill(sum.begin(), sum.end(), kHalf);
    for (int t = 0; t < pixel.count; ++t) {
      const std::int32_t weight =
          down.weights[y * static_cast<std::size_t>(down.most) + static_cast<std::size_t>(t)];
      const std::uint8_t* const in = &narrow[static_cast<std::size_t>(pixel.first - top + t) * row];
      for (std::size_t x = 0; x < row; ++x) sum[x] += in[x] * weight;
    }
    std::transform(sum.begin(), sum.end(),
                   result.pixels.begin() + static_cast<std::ptrdiff_t>(y * row), rounded);
  }
  return result;
}

}  // namespace hetpipe
