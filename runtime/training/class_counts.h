// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hetpipe {

// What a classifier got right and what it took for what: counts, so that those of parts add up to
// those of the whole, whoever counted which.
class ClassCounts {
 public:
  static constexpr int kTop = 5;  // of the other accuracy

  explicit ClassCounts(int classes);

  // One prediction: logits (classes), of which the first largest is the prediction. A label that is
  // kNoLabel counts for nothing.
  void add(std::int32_t label, std::span<const float> logits);
  void add(const ClassCounts& other);  // of as many classes

  int classes() const { return classes_; }
  std::int64_t labels() const;
  std::int64_t correct() const;
  // Labels that are among the kTop largest logits; of equal ones the first.
  std::int64_t among_top() const { return among_top_; }
  // Labels `label` for which `prediction` was predicted.
  std::int64_t confused(int label, int prediction) const;
  const std::vector<std::int64_t>& table() const { return table_; }  // (label, prediction)
  std::int64_t labels_of(int label) const;

  // Of a class's labels, those that were predicted; nothing: it has none.
  std::optional<double> accuracy(int label) const;
  // Intersection over union: labels of the class that were predicted, over those that are its or
  // were taken for it; nothing: neither.
  std::optional<double> iou(int label) const;
  // The mean over the classes that have one (Everingham et al., "The PASCAL visual object classes
  // challenge", 2010, section 4.4).
  std::optional<double> mean_iou() const;

  // What add(other) adds, as numbers that travel: among_top, then the table.
  std::vector<std::int64_t> numbers() const;
  void add_numbers(std::span<const std::int64_t> numbers);

 private:
  std::int64_t predicted(int prediction) const;

  int classes_;
  std::int64_t among_top_ = 0;
  std::vector<std::int64_t> table_;
};

}  // namespace hetpipe
