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
  // A part of the labels: a dataset's, or some of an input's elements.
  struct Labels {
    std::string name;
    std::vector<std::int64_t> shape;  // of one sample, of what has this name; (C, H, W) of images
    bool numbers = false;             // otherwise classes
    int classes = 0;
    int ignore_index = -100;         // a class label that is none
    std::vector<std::int32_t> from;  // for each label its element; -1: none. Empty: all, in order
  };
  std::vector<Input> inputs;
  std::vector<Labels> labels;
  std::vector<std::int64_t> sample_shape;  // as the model sees the inputs, in a row
};

}  // namespace hetpipe
