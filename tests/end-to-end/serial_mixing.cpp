// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_mixing.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "base/random.h"

namespace hetpipe {

SerialMixed mix_serially(const Dataset& data, const Sampler& sampler, std::int64_t position,
                         std::span<float> image) {
  const SampleKey key = sampler.key(position);
  const std::int64_t epoch = position / data.size, place = position % data.size;
  const SampleKey partner = sampler.key(epoch * data.size + (place + data.size - 1) % data.size);
  const std::uint64_t draws =
      random_key({sampler.seed(), hash_text("mixes"), static_cast<std::uint64_t>(key.epoch),
                  static_cast<std::uint64_t>(key.index)});
  const auto u = [&](std::uint64_t i) { return static_cast<double>(random_uniform(draws, i)); };
  const auto& [mixup, cutmix] = data.mixes;
  const bool is_mixup = mixup > 0 && cutmix > 0 ? u(0) < 0.5 : mixup > 0;
  // Student's t / sqrt(degrees of freedom), and what Beta is of it.
  const double g = std::expm1(-std::log1p(-u(1)) / (is_mixup ? mixup : cutmix));
  const double c = std::cos(2 * std::numbers::pi * u(2));
  double lambda = g == 0 ? 0.5 : (1 + c / std::sqrt(1 / g + c * c)) / 2;

  std::vector<float> other(image.size());
  data.copy_sample(partner, other.data());
  const std::int32_t label = data.labels_of(partner.index).front();
  if (is_mixup) {
    const auto share = static_cast<float>(lambda);
    for (std::size_t i = 0; i < image.size(); ++i) {
      image[i] = share * image[i] + (1 - share) * other[i];
    }
    return {label, share};
  }
  // torchvision.transforms.v2.CutMix, in its words.
  const int w = data.width, h = data.height;
  const int r_x = static_cast<int>(u(3) * w), r_y = static_cast<int>(u(4) * h);
  const double r = 0.5 * std::sqrt(1 - lambda);
  const int r_w_half = static_cast<int>(r * w), r_h_half = static_cast<int>(r * h);
  const int x1 = std::max(r_x - r_w_half, 0), y1 = std::max(r_y - r_h_half, 0);
  const int x2 = std::min(r_x + r_w_half, w), y2 = std::min(r_y + r_h_half, h);
  for (int y = y1; y < y2; ++y) {
    for (int i = (y * w + x1) * data.channels; i < (y * w + x2) * data.channels; ++i) {
      image[static_cast<std::size_t>(i)] = other[static_cast<std::size_t>(i)];
    }
  }
  lambda = 1 - static_cast<double>(x2 - x1) * (y2 - y1) / (static_cast<double>(w) * h);
  return {label, static_cast<float>(lambda)};
}

std::vector<std::int32_t> label_rows(const std::vector<std::int32_t>& labels,
                                     const std::vector<SerialMixed>& mixed) {
  std::vector<std::int32_t> rows = labels;
  for (const SerialMixed& one : mixed) rows.push_back(one.other);
  for (const SerialMixed& one : mixed) rows.push_back(std::bit_cast<std::int32_t>(one.share));
  return rows;
}

}  // namespace hetpipe
