// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/training_data.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/test_share.h"
#include "runtime/model/zoo.h"
#include "runtime/model/zoo_text.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {

bool has_test_samples(const TrainingData& of) {
  return of.test_share.has_value() || has_test_split(of.data);
}

Dataset open_training_data(const TrainingData& of, Split split, Parts parts) {
  const TextTask task =
      learns_masked_tokens(of.model.name) ? TextTask::masked_tokens : TextTask::next_token;
  if (!of.test_share) return open_dataset(of.data, split, parts, task);
  if (has_test_split(of.data)) {
    throw UserError("--test-share",
                    "is for data without test samples (" + of.data + " holds some). Leave it out.");
  }
  return split_of(open_dataset(of.data, Split::train, Parts::both, task), *of.test_share, split,
                  parts);
}

Model make_model_for(const ModelChoice& choice, const Dataset& data) {
  Model model = make_model(choice, Shape(data.sample_shape()), data.classes);
  check_labels_hidden(model, data);
  if (model.labels_per_sample() != data.labels_per_sample) {
    throw UserError("model '" + model.name() + "'",
                    format("predicts %lld classes for each sample (each sample of %s has %d "
                           "labels). Give data with a label for each prediction.",
                           static_cast<long long>(model.labels_per_sample()), data.name.c_str(),
                           data.labels_per_sample));
  }
  return model;
}

void check_labels_hidden(const Model& model, const Dataset& data) {
  if (data.tokens == 0 || data.mask_token || !model.sees_all_tokens()) return;
  throw UserError("model '" + model.name() + "'",
                  "sees all tokens of " + data.name +
                      ", and with them the next one, which is its label (what it learns and its "
                      "accuracy would mean nothing). Use a model whose attention is causal, such "
                      "as gpt2-tiny, or one that fills in masked tokens, such as bert-tiny.");
}

}  // namespace hetpipe
