// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/graph/import.h"

namespace hetpipe {

// A minibatch to check a model with.
struct CheckedBatch {
  std::int64_t samples = 0;
  std::vector<float> inputs;         // (N, sample)
  std::vector<std::int32_t> labels;  // part by part, as a pass has them; bits of numbers
  bool skips = false;                // some are kNoLabel
  double loss_weight = 0;            // of ForwardArguments
};

// From a safetensors file with a tensor for each input of an exported model, and of its labels.
// Images (N, C, H, W) are put in the order (N, H, W, C). UserError where one is missing or has
// another shape, or a label is no class.
CheckedBatch read_batch(const std::string& path, const SampleFormat& format);
// And what its labels weigh in the loss of this model.
CheckedBatch read_batch(const std::string& path, const Model& model, const SampleFormat& format);
double loss_weight_of(const Model& model, const CheckedBatch& batch);

}  // namespace hetpipe
