// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/training_data.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/data/shards.h"
#include "runtime/data/test_share.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/zoo.h"
#include "runtime/model/zoo_text.h"
#include "runtime/store/class_names.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {

namespace {

// What an exported model reads of a sample; nothing of a built-in one.
std::optional<SampleFormat> format_of(const ModelChoice& model) {
  if (!is_exported_model(model.name)) return std::nullopt;
  return exported_samples(model.name, model.loss);
}

}  // namespace

bool has_test_samples(const TrainingData& of) {
  return of.test_share.has_value() || has_test_split(of.data);
}

namespace {

Dataset open_images(const TrainingData& of, Split split, Parts parts) {
  ImageSources sources = is_shards(of.data) ? open_shards(of.data) : open_image_folder(of.data);
  if (of.test_share) sources = with_test_share(std::move(sources), *of.test_share, of.data);
  std::shared_ptr<const ImageSource> source =
      split == Split::train ? std::move(sources.train) : std::move(sources.test);
  Dataset dataset =
      image_dataset(std::move(source), sources.classes, of.data, of.images, split, parts);
  dataset.remark = sources.remark;
  dataset.class_names = std::move(sources.class_names);
  return dataset;
}

}  // namespace

Dataset open_training_data(const TrainingData& of, Split split, Parts parts) {
  const TextTask task =
      learns_masked_tokens(of.model.name) ? TextTask::masked_tokens : TextTask::next_token;
  const std::optional<SampleFormat> samples = format_of(of.model);
  if (is_shards(of.data) || is_image_folder(of.data)) return open_images(of, split, parts);
  const auto open = [&](Split wanted, Parts what) {
    Dataset dataset = samples ? open_dataset(of.data, wanted, what, *samples)
                              : open_dataset(of.data, wanted, what, task);
    dataset.class_names = class_names_of(of.data);
    return dataset;
  };
  if (!of.test_share) return with_transforms(open(split, parts), of.images, split, parts);
  if (has_test_split(of.data)) {
    throw UserError("--test-share",
                    "is for data without test samples (" + of.data + " holds some). Leave it out.");
  }
  return with_transforms(split_of(open(Split::train, Parts::both), *of.test_share, split, parts),
                         of.images, split, parts);
}

Model make_model_for(const ModelChoice& choice, const Dataset& data) {
  Model model = make_model(choice, Shape(data.sample_shape()), data.classes);
  check_labels_hidden(model, data);
  const bool numbers = model.labels_per_sample() > 0 && !model.predicts_classes();
  if (numbers != data.number_labels && data.labels_per_sample > 0) {
    throw UserError("model '" + model.name() + "'",
                    numbers ? "learns numbers by this --loss (the labels of " + data.name +
                                  " are classes). Give an HDF5 file whose labels are numbers."
                            : "learns classes by this --loss (the labels of " + data.name +
                                  " are numbers). Choose another --loss.");
  }
  if (data.mask_token && model.weighed_loss().loss != nullptr) {
    throw UserError("--class-weights", "has no effect on masked tokens. Leave it out.");
  }
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
