// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/dataset.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/error.h"
#include "base/hash.h"
#include "base/masked_tokens.h"
#include "base/text.h"

namespace hetpipe {

const char* split_name(Split split) { return split == Split::train ? "train" : "test"; }

std::vector<std::int64_t> Dataset::sample_shape() const {
  if (!extents.empty()) return extents;
  if (tokens > 0) return {tokens};
  return {height, width, channels};
}

std::int64_t Dataset::sample_values() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : sample_shape()) count *= extent;
  return count;
}

void Dataset::copy_sample(std::int64_t index, float* out) const {
  ensure(0 <= index && index < size, "copy_sample: index outside the data set");
  ensure(has_images(), "copy_sample: the images were not loaded");
  const std::int64_t count = sample_values();
  if (!values.empty()) {
    std::copy_n(values.data() + index * count, count, out);
    return;
  }
  if (!token_ids.empty()) {
    std::copy_n(token_ids.data() + index * count, count, out);
    return;
  }
  const std::uint8_t* in = pixels.data() + index * count;
  for (std::int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(in[i]) / 255.0f;
}

SampleType Dataset::sample_type() const {
  return !pixels.empty()      ? SampleType::pixels
         : !token_ids.empty() ? SampleType::tokens
                              : SampleType::floats;
}

void Dataset::copy_stored(std::int64_t index, std::byte* out) const {
  ensure(0 <= index && index < size, "copy_stored: index outside the data set");
  ensure(has_images(), "copy_stored: the images were not loaded");
  const auto count = static_cast<std::size_t>(sample_values());
  const auto copy = [&](const auto& stored) {
    std::ranges::copy(
        std::as_bytes(std::span(stored).subspan(static_cast<std::size_t>(index) * count, count)),
        out);
  };
  switch (sample_type()) {
    case SampleType::pixels:
      return copy(pixels);
    case SampleType::tokens:
      return copy(token_ids);
    case SampleType::floats:
      return copy(values);
  }
}

void Dataset::store_tokens_short() {
  const bool fit = std::ranges::all_of(values, [](float value) {
    return value >= 0 && value <= 65535 && value == std::floor(value) && !std::signbit(value);
  });
  if (!fit) return;
  token_ids.assign(values.begin(), values.end());
  values = {};
}

std::span<const std::int32_t> Dataset::labels_of(std::int64_t index) const {
  ensure(0 <= index && index < size, "labels_of: index outside the data set");
  ensure(has_labels(), "labels_of: the labels were not loaded");
  const auto count = static_cast<std::size_t>(labels_per_sample);
  return std::span(labels).subspan(static_cast<std::size_t>(index) * count, count);
}

double sum_of_label_weights(std::span<const std::int32_t> labels, std::span<const float> classes) {
  double sum = 0;
  for (const std::int32_t label : labels) {
    if (label == kNoLabel) continue;
    sum += classes.empty() ? 1.0 : static_cast<double>(classes[static_cast<std::size_t>(label)]);
  }
  return sum;
}

double Dataset::mean_label_weight(std::span<const std::int64_t> samples) const {
  if (!label_weights || samples.empty()) return 0;
  double sum = 0;
  for (const std::int64_t index : samples) {
    const auto weighed = labels_of(index).subspan(static_cast<std::size_t>(label_weights->first),
                                                  static_cast<std::size_t>(label_weights->count));
    sum += sum_of_label_weights(weighed, label_weights->classes);
  }
  return sum / static_cast<double>(samples.size());
}

std::uint64_t dataset_fingerprint(const Dataset& dataset, std::span<const std::int32_t> labels,
                                  std::span<const std::byte> first_images) {
  std::string shape = format("%lld %d %d %d %d", static_cast<long long>(dataset.size),
                             dataset.height, dataset.width, dataset.channels, dataset.classes);
  if (dataset.tokens > 0) shape += format(" %d tokens", dataset.tokens);
  for (const std::int64_t extent : dataset.extents) {
    shape += format(" x%lld", static_cast<long long>(extent));
  }
  return hash_bytes(first_images, hash_bytes(std::as_bytes(labels), hash_text(shape)));
}

}  // namespace hetpipe
