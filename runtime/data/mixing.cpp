// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/random.h"

namespace hetpipe {
namespace {

// The part around a middle that has, but for what would lie outside, 1 - share of the area.
Crop box_around(ImageSize size, int column, int row, double share) {
  const double side = 0.5 * std::sqrt(1 - share);
  const int half_width = static_cast<int>(side * size.width);
  const int half_height = static_cast<int>(side * size.height);
  const int left = std::max(column - half_width, 0), top = std::max(row - half_height, 0);
  return {top, left, std::min(row + half_height, size.height) - top,
          std::min(column + half_width, size.width) - left};
}

template <class T>
std::span<const T> values_of(const std::byte* from, std::int64_t count) {
  return {reinterpret_cast<const T*>(from), at(count)};
}

// What the network receives of a sample.
std::vector<float> received(const Dataset& data, const std::byte* stored) {
  const std::int64_t count = data.sample_values();
  if (data.sample_type() == SampleType::floats) {
    const auto values = values_of<float>(stored, count);
    return {values.begin(), values.end()};
  }
  const auto channels = at(std::max(data.scale.channels, 1));
  std::vector<std::array<float, 256>> table(channels);  // of each channel's bytes
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      table[c][pixel] =
          scaled(data.scale, static_cast<std::uint8_t>(pixel), static_cast<std::int64_t>(c));
    }
  }
  std::vector<float> values;
  values.reserve(at(count));
  std::size_t c = 0;
  for (const std::uint8_t pixel : values_of<std::uint8_t>(stored, count)) {
    values.push_back(table[c][pixel]);
    c = c + 1 == channels ? 0 : c + 1;
  }
  return values;
}

// The box's rows of `other` over those of `to`; elements of so many bytes.
void move_box(const Dataset& data, const Crop& box, std::size_t element, const std::byte* other,
              std::byte* to) {
  const std::size_t pixel = at(data.channels) * element;
  for (int row = box.top; row < box.top + box.height; ++row) {
    const std::size_t from = (at(row) * at(data.width) + at(box.left)) * pixel;
    std::memcpy(to + from, other + from, at(box.width) * pixel);
  }
}

}  // namespace

double beta_share(double alpha, double first, double second) {
  const double grown = std::expm1(-std::log1p(-first) / alpha);
  if (grown == 0) return 0.5;
  const double cosine = std::cos(2 * std::numbers::pi * second);
  return (1 + cosine / std::sqrt(1 / grown + cosine * cosine)) / 2;
}

Mix drawn_mix(const MixRules& rules, std::uint64_t seed, SampleKey key, ImageSize size) {
  const std::uint64_t draws =
      random_key({seed, hash_text("mixes"), static_cast<std::uint64_t>(key.epoch),
                  static_cast<std::uint64_t>(key.index)});
  const auto draw = [&](std::uint64_t i) { return static_cast<double>(random_uniform(draws, i)); };
  const bool both = rules.mixup_alpha > 0 && rules.cutmix_alpha > 0;
  const bool whole = both ? draw(0) < 0.5 : rules.mixup_alpha > 0;
  const double share = beta_share(whole ? rules.mixup_alpha : rules.cutmix_alpha, draw(1), draw(2));
  if (whole) return {static_cast<float>(share), std::nullopt};
  const auto below = [&](std::uint64_t i, int count) {
    return std::min(count - 1, static_cast<int>(draw(i) * count));
  };
  const int column = below(3, size.width);
  const Crop box = box_around(size, column, below(4, size.height), share);
  const double all = static_cast<double>(size.width) * size.height;
  return {static_cast<float>(1 - static_cast<double>(box.width) * box.height / all), box};
}

SampleType mixed_type(const MixRules& rules, SampleType stored) {
  return rules.mixup_alpha > 0 ? SampleType::floats : stored;
}

void check_mixes(const Dataset& data, const MixRules& rules) {
  if (!rules.any()) return;
  const bool images = data.channels > 0 && data.tokens == 0 && data.extents.empty();
  if (images && data.labels_per_sample == 1 && !data.number_labels && !data.skips) return;
  throw UserError(rules.option(), "mixes images that have a class each (" + data.name + " holds " +
                                      (!images                       ? "others"
                                       : data.number_labels          ? "numbers as labels"
                                       : data.labels_per_sample != 1 ? "several labels of each"
                                                                     : "images without a class") +
                                      "). Leave it out.");
}

void mix_by(const MixRules& rules, Dataset& data) {
  check_mixes(data, rules);
  data.mixes = rules;
}

void mix_samples(const Dataset& data, const Mix& mix, const std::byte* own, const std::byte* other,
                 std::byte* out) {
  const SampleType stored = data.sample_type(), type = mixed_type(data.mixes, stored);
  const auto count = at(data.sample_values());
  if (type == stored && mix.box) {
    std::memcpy(out, own, count * bytes_of(type));
    return move_box(data, *mix.box, bytes_of(type), other, out);
  }
  std::vector<float> values = received(data, own);
  const std::vector<float> others = received(data, other);
  if (mix.box) {
    move_box(data, *mix.box, sizeof(float), reinterpret_cast<const std::byte*>(others.data()),
             reinterpret_cast<std::byte*>(values.data()));
  } else {
    const float rest = 1 - mix.share;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = mix.share * values[i] + rest * others[i];
    }
  }
  std::memcpy(out, values.data(), count * sizeof(float));
}

}  // namespace hetpipe
