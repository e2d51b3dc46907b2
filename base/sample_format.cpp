// SPDX-License-Identifier: Apache-2.0
#include "base/sample_format.h"

#include "base/index.h"
#include "base/masked_tokens.h"
#include "base/text.h"

namespace hetpipe {

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string rows_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(N";
  for (const std::int64_t extent : shape) {
    text += format(", %lld", static_cast<long long>(extent));
  }
  return text + ")";
}

std::int64_t channels_last(std::int64_t e, const std::vector<std::int64_t>& shape) {
  const std::int64_t pixels = shape[1] * shape[2];
  return e % pixels * shape[0] + e / pixels;
}

std::int64_t SampleFormat::Labels::count() const {
  return from.empty() ? elements_of(shape) : static_cast<std::int64_t>(from.size());
}

std::optional<std::int32_t> class_label(std::int64_t stored, const SampleFormat::Labels& part) {
  if (stored == part.ignore_index) return kNoLabel;
  if (stored < 0 || stored >= part.classes) return std::nullopt;
  return static_cast<std::int32_t>(stored);
}

std::string classes_text(const SampleFormat::Labels& part) {
  return format("must be in 0..%d, the model's classes, or %d, which is ignored", part.classes - 1,
                part.ignore_index);
}

std::vector<std::int32_t> chosen_labels(const SampleFormat::Labels& part,
                                        std::vector<std::int32_t> all) {
  if (part.from.empty()) return all;
  const std::int64_t each = elements_of(part.shape);
  const std::int64_t samples = static_cast<std::int64_t>(all.size()) / each;
  std::vector<std::int32_t> labels;
  labels.reserve(at(samples * part.count()));
  for (std::int64_t n = 0; n < samples; ++n) {
    for (const std::int32_t from : part.from) {
      labels.push_back(from < 0 ? kNoLabel : all[at(n * each + from)]);
    }
  }
  return labels;
}

}  // namespace hetpipe
