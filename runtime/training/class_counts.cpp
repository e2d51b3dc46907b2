// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/class_counts.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/index.h"
#include "base/masked_tokens.h"

namespace hetpipe {

ClassCounts::ClassCounts(int classes) : classes_(classes), table_(at(classes) * at(classes)) {}

void ClassCounts::add(std::int32_t label, std::span<const float> logits) {
  if (label == kNoLabel) return;
  ensure(std::ssize(logits) == classes_ && 0 <= label && label < classes_,
         "a label and a logit of each class");
  const auto best = std::ranges::max_element(logits) - logits.begin();
  ++at(table_, label * std::int64_t{classes_} + best);
  int before = 0;
  for (int c = 0; c < classes_; ++c) {
    const float own = at(logits, label);
    before += at(logits, c) > own || (at(logits, c) == own && c < label) ? 1 : 0;
  }
  among_top_ += before < kTop ? 1 : 0;
}

void ClassCounts::add(const ClassCounts& other) { add_numbers(other.numbers()); }

std::int64_t ClassCounts::labels() const {
  return std::accumulate(table_.begin(), table_.end(), std::int64_t{0});
}

std::int64_t ClassCounts::correct() const {
  std::int64_t sum = 0;
  for (int c = 0; c < classes_; ++c) sum += confused(c, c);
  return sum;
}

std::int64_t ClassCounts::confused(int label, int prediction) const {
  return table_[at(label) * at(classes_) + at(prediction)];
}

std::int64_t ClassCounts::labels_of(int label) const {
  const auto row = table_.begin() + std::int64_t{label} * classes_;
  return std::accumulate(row, row + classes_, std::int64_t{0});
}

std::int64_t ClassCounts::predicted(int prediction) const {
  std::int64_t sum = 0;
  for (int c = 0; c < classes_; ++c) sum += confused(c, prediction);
  return sum;
}

std::optional<double> ClassCounts::accuracy(int label) const {
  const std::int64_t all = labels_of(label);
  if (all == 0) return std::nullopt;
  return static_cast<double>(confused(label, label)) / static_cast<double>(all);
}

std::optional<double> ClassCounts::iou(int label) const {
  const std::int64_t both = confused(label, label);
  const std::int64_t any = labels_of(label) + predicted(label) - both;
  if (any == 0) return std::nullopt;
  return static_cast<double>(both) / static_cast<double>(any);
}

std::optional<double> ClassCounts::mean_iou() const {
  double sum = 0;
  int count = 0;
  for (int c = 0; c < classes_; ++c) {
    if (const auto one = iou(c)) {
      sum += *one;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::vector<std::int64_t> ClassCounts::numbers() const {
  std::vector<std::int64_t> all{among_top_};
  all.insert(all.end(), table_.begin(), table_.end());
  return all;
}

void ClassCounts::add_numbers(std::span<const std::int64_t> numbers) {
  ensure(numbers.size() == table_.size() + 1, "counts of as many classes");
  among_top_ += numbers[0];
  for (std::size_t i = 0; i < table_.size(); ++i) table_[i] += numbers[i + 1];
}

}  // namespace hetpipe
