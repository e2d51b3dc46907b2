// SPDX-License-Identifier: Apache-2.0
#include "launch/evaluate/evaluation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "runtime/training/test_batches.h"

namespace hetpipe {
namespace {

// Whether the loss is the mean of -ln p(label): nothing weighs, nothing is added.
bool is_plain_cross_entropy(const Model& model) {
  const auto* loss = std::get_if<SoftmaxCrossEntropy>(&model.layers().back().spec);
  return loss != nullptr && loss->class_weights.empty();
}

bool counts_classes(const Model& model) {
  const Measured measured = measured_of(model);
  return (measured == Measured::classes || measured == Measured::pixels) &&
         model.classes() <= kMostCountedClasses;
}

// The rows of a sample's logits (rows, classes) against its labels of the accuracy.
void count(ClassCounts& counts, const WholeModel& whole, const Model& model, const Batch& batch,
           const std::vector<float>& logits) {
  const Model::LabelRange range = model.class_labels();
  const std::int64_t each = model.labels_per_sample();
  const std::int64_t classes = whole.classes();
  for (std::int64_t n = 0; n < batch.count; ++n) {
    for (std::int64_t r = 0; r < whole.rows(); ++r) {
      const auto row = std::span(logits).subspan(at((n * whole.rows() + r) * classes), at(classes));
      counts.add(batch.labels[at(n * each + range.first + r)], row);
    }
  }
}

}  // namespace

Measured measured_of(const Model& model) {
  if (!model.predicts_classes()) return Measured::numbers;
  if (model.class_labels().count == 1) return Measured::classes;
  return model.vocabulary() > 0 ? Measured::tokens : Measured::pixels;
}

EvaluatedPart evaluate_part(WholeModel& whole, const Model& model, const Dataset& data,
                            int minibatch, int rank, int ranks) {
  EvaluatedPart part;
  part.data = data.fingerprint;
  std::optional<ClassCounts> counts;
  if (counts_classes(model)) counts.emplace(static_cast<int>(whole.classes()));
  const double label_weight = mean_label_weight(data);
  for (std::int64_t b = rank; b * minibatch < data.size; b += ranks) {
    const std::int64_t first = b * minibatch;
    const Batch batch =
        assemble_test_batch(data, first, std::min<std::int64_t>(minibatch, data.size - first), b,
                            label_weight, ordinary_memory);
    const WholeModel::Result result =
        whole.evaluate(batch, counts ? WholeModel::Logits::keep : WholeModel::Logits::drop);
    if (!std::isfinite(result.loss_sum)) {
      throw NumericalError(format("the loss of samples %lld to %lld is not a finite number",
                                  static_cast<long long>(first),
                                  static_cast<long long>(first + batch.count - 1)));
    }
    part.batches.push_back(b);
    part.loss_sums.push_back(result.loss_sum);
    part.correct += result.correct;
    part.labels += result.labels;
    if (counts) count(*counts, whole, model, batch, result.logits);
  }
  if (counts) part.counts = counts->numbers();
  return part;
}

Evaluation added_up(const std::vector<EvaluatedPart>& parts, const Model& model,
                    const Dataset& data) {
  Evaluation all;
  all.measured = measured_of(model);
  all.samples = data.size;
  if (counts_classes(model)) all.counts.emplace(model.classes());
  std::map<std::int64_t, double> losses;
  for (const EvaluatedPart& part : parts) {
    for (std::size_t i = 0; i < part.batches.size(); ++i) {
      losses[part.batches[i]] = part.loss_sums[i];
    }
    all.correct += part.correct;
    all.labels += part.labels;
    if (all.counts) all.counts->add_numbers(part.counts);
  }
  double sum = 0;
  for (const auto& [batch, loss] : losses) sum += loss;
  all.loss = sum / static_cast<double>(data.size);
  if (all.measured == Measured::tokens && is_plain_cross_entropy(model)) {
    all.perplexity = std::exp(all.loss);
    all.bits = all.loss / std::numbers::ln2;
  }
  return all;
}

}  // namespace hetpipe
