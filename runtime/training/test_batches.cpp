// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/test_batches.h"

#include <numeric>
#include <utility>
#include <vector>

#include "base/index.h"
#include "runtime/data/masking.h"

namespace hetpipe {

void weigh_labels(Dataset& data, const Model& model) {
  const auto [loss, labels] = model.weighed_loss();
  if (loss == nullptr || !data.has_labels()) return;
  const ConstantTable<float>& weights = loss->class_weights;
  data.label_weights = {
      labels.first, labels.count, {weights.data(), weights.data() + weights.size()}};
}

double mean_label_weight(const Dataset& data) {
  if (!data.label_weights) return 0;
  std::vector<std::int64_t> all(at(data.size));
  std::iota(all.begin(), all.end(), 0);
  return data.mean_label_weight(all);
}

Batch assemble_test_batch(const Dataset& test, std::int64_t first, std::int64_t count,
                          std::int64_t number, double label_weight, const SampleMemory& memory,
                          int threads) {
  std::vector<SampleKey> keys;
  for (std::int64_t i = 0; i < count; ++i) keys.push_back({0, first + i});
  Batch batch = assemble_samples(test, std::move(keys), kEvaluationMaskingSeed, memory, threads);
  batch.minibatch = number;
  batch.loss_weight = label_weight;
  return batch;
}

}  // namespace hetpipe
