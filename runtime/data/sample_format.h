// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hetpipe {

// What an exported model reads of each sample and learns from, in PyTorch's shapes: a data set with
// named parts holds these (runtime/store/named_dataset.h).
struct SampleFormat {
  struct Input {
    std::string name;
    std::vector<std::int64_t> shape;  // of one sample; (C, H, W) of an image
    bool tokens = false;              // integers
  };
  enum class Labels { none, classes, numbers };
  std::vector<Input> inputs;
  Labels labels = Labels::classes;
  std::vector<std::int64_t> labels_shape;  // of one sample; (C, H, W) of images of numbers
  int classes = 0;
  int ignore_index = -100;                  // a class label that is none
  std::vector<std::int64_t> sample_shape;  // as the model sees the inputs, in a row
};

}  // namespace hetpipe
