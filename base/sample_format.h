// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hetpipe {

// What an exported model reads of each sample and learns from, in PyTorch's shapes: its importer
// says it, data sets and minibatches hold it by these names.
struct SampleFormat {
  struct Input {
    std::string name;                                               // of the model's argument
    std::vector<std::int64_t> shape;                                // of one sample
    bool tokens = false;                                            // integers
    bool is_image() const { return !tokens && shape.size() == 3; }  // (C, H, W)
  };
  // A part of the labels: those of an input, or of a dataset of their own.
  struct Labels {
    std::string name = "labels";
    std::vector<std::int64_t> shape = {};  // of one sample, of what has this name
    bool numbers = false;                  // otherwise classes
    int classes = 0;
    int ignore_index = -100;  // a class label that is none
    std::vector<std::int32_t> from =
        {};  // for each label its element; -1: none. Empty: all of them
    bool is_image() const { return numbers && shape.size() == 3; }  // (C, H, W)
    std::int64_t count() const;                                     // of a sample
  };
  std::vector<Input> inputs;
  std::vector<Labels> labels;              // of each part; none: the loss reads none
  std::vector<std::int64_t> sample_shape;  // of the inputs in a row, as Model::sample_shape
};

std::int64_t elements_of(const std::vector<std::int64_t>& shape);
std::string rows_text(const std::vector<std::int64_t>& shape);  // "(N, 3, 32, 32)"

// Where element e of an image (C, H, W) lies in (H, W, C).
std::int64_t channels_last(std::int64_t e, const std::vector<std::int64_t>& shape);

// A class as it is stored: kNoLabel where it is ignored, nothing where it is no class.
std::optional<std::int32_t> class_label(std::int64_t stored, const SampleFormat::Labels& part);
std::string classes_text(const SampleFormat::Labels& part);  // "must be in 0..9, ..."

// Of all elements of what has the part's name, (samples, shape), those that are labels.
std::vector<std::int32_t> chosen_labels(const SampleFormat::Labels& part,
                                        std::vector<std::int32_t> all);

}  // namespace hetpipe
