// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/data/dataset.h"
#include "runtime/data/image_dataset.h"
#include "runtime/model/model.h"
#include "runtime/model/zoo.h"

// The data set of a training, as its model learns from it.
namespace hetpipe {

struct TrainingData {
  ModelChoice model;                   // says what is learnt of a text
  std::string data;                    // as for open_dataset
  std::optional<double> test_share{};  // test samples are this part of the training samples
  ImageRules images{};                 // what happens to images
};
bool has_test_samples(const TrainingData& of);
// UserError beside open_dataset's: a test share of data that have test samples.
Dataset open_training_data(const TrainingData& of, Split split, Parts parts);

// The model for such data. UserError where there is none, where it does not take
// such samples, and where it would see what it has to predict.
Model make_model_for(const ModelChoice& model, const Dataset& data);
// The last of these, of any model.
void check_labels_hidden(const Model& model, const Dataset& data);

}  // namespace hetpipe
