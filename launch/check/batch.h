// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace hetpipe {

// What one minibatch holds, as a model reads it.
struct CheckedBatch {
  std::int64_t samples = 0;
  std::vector<float> inputs;         // (N, sample)
  std::vector<std::int32_t> labels;  // (N, labels of a sample); bits of floats for regression
  double loss_weight = 0;            // of ForwardArguments
};

// From a safetensors file with a tensor for each input of the exported model in `folder`, and
// labels. Images (N, C, H, W) are put in the order (N, H, W, C). UserError where one is missing or
// has another shape, or a label is no class. Labels of `ignore_index` are kNoLabel.
CheckedBatch read_batch(const std::string& path, const std::string& folder, const Model& model,
                        int ignore_index);

}  // namespace hetpipe
