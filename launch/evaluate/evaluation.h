// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "runtime/data/dataset.h"
#include "runtime/pipeline/whole_model.h"
#include "runtime/training/class_counts.h"

// What a trained model makes of a data set.
namespace hetpipe {

// What is measured beside the loss. classes: one label a sample; tokens: one for each token;
// pixels: several labels that are no tokens; numbers: none are classes.
enum class Measured { classes, tokens, pixels, numbers };
Measured measured_of(const Model& model);
// Above so many classes there is no table of what was taken for what, which grows with their
// square.
inline constexpr int kMostCountedClasses = 2048;

// Batches of the data set, by number: what one rank computes, and tells the first.
struct EvaluatedPart {
  std::vector<std::int64_t> batches;
  std::vector<double> loss_sums;  // of each
  std::int64_t correct = 0;
  std::int64_t labels = 0;             // that are classes
  std::vector<std::int64_t> counts{};  // of ClassCounts; empty: not counted
  std::uint64_t data = 0;              // fingerprint of the data, hash of the weights: the same on
  std::uint64_t weights = 0;           // every rank
};
constexpr auto fields_of(Type<EvaluatedPart>) {
  return fields<&EvaluatedPart::batches, &EvaluatedPart::loss_sums, &EvaluatedPart::correct,
                &EvaluatedPart::labels, &EvaluatedPart::counts, &EvaluatedPart::data,
                &EvaluatedPart::weights>;
}

// Samples [0, data.size) in batches of `minibatch`, of which rank r of R takes r, r + R, ...
// NumericalError where a loss is not finite. `weigh_labels` has been called on the data.
EvaluatedPart evaluate_part(WholeModel& whole, const Model& model, const Dataset& data,
                            int minibatch, int rank, int ranks);

struct Evaluation {
  Measured measured = Measured::numbers;
  std::int64_t samples = 0;
  double loss = 0;  // mean over samples, as the training's
  std::int64_t correct = 0;
  std::int64_t labels = 0;
  std::optional<ClassCounts> counts{};
  // Of the loss, where it is the mean of -ln p over tokens: e^loss, and loss / ln 2.
  std::optional<double> perplexity{};
  std::optional<double> bits{};
};
// The parts of all ranks. Losses are added batch by batch in their order, so their sum does not
// depend on who computed which.
Evaluation added_up(const std::vector<EvaluatedPart>& parts, const Model& model,
                    const Dataset& data);

}  // namespace hetpipe
