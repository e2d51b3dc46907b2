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

void Dataset::copy_sample(SampleKey key, float* out) const {
  const auto count = static_cast<std::size_t>(sample_values());
  const SampleType type = sample_type();
  if (type == SampleType::floats) return copy_stored(key, reinterpret_cast<std::byte*>(out));
  std::vector<std::byte> stored(count * bytes_of(type));
  copy_stored(key, stored.data());
  for (std::size_t i = 0; i < count; ++i) {
    out[i] =
        type == SampleType::pixels
            ? scaled(scale, std::to_integer<std::uint8_t>(stored[i]), static_cast<std::int64_t>(i))
            : static_cast<float>(reinterpret_cast<const std::uint16_t*>(stored.data())[i]);
  }
}

SampleType Dataset::sample_type() const {
  if (store) return store->type();
  return !pixels.empty()      ? SampleType::pixels
         : !token_ids.empty() ? SampleType::tokens
                              : SampleType::floats;
}

void Dataset::copy_stored(SampleKey key, std::byte* out) const {
  const std::int64_t index = key.index;
  ensure(0 <= index && index < size, "copy_stored: index outside the data set");
  ensure(has_images(), "copy_stored: the images were not loaded");
  if (store) return store->read(key, out);
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

std::vector<std::int32_t> Dataset::labels_of(std::int64_t index) const {
  std::vector<std::int32_t> own;
  append_labels(index, own);
  return own;
}

void Dataset::append_labels(std::int64_t index, std::vector<std::int32_t>& to) const {
  ensure(0 <= index && index < size, "append_labels: index outside the data set");
  ensure(has_labels(), "append_labels: the labels were not loaded");
  const auto count = static_cast<std::size_t>(labels_per_sample);
  if (label_store) {
    to.resize(to.size() + count);
    return label_store->read_labels(index, std::span(to).last(count));
  }
  const std::span own = std::span(labels).subspan(static_cast<std::size_t>(index) * count, count);
  to.insert(to.end(), own.begin(), own.end());
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
    const std::vector<std::int32_t> own = labels_of(index);
    sum +=
        sum_of_label_weights(std::span(own).subspan(static_cast<std::size_t>(label_weights->first),
                                                    static_cast<std::size_t>(label_weights->count)),
                             label_weights->classes);
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
