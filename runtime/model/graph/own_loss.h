// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/graph/graph.h"

// A loss that a network computes itself: one number, which is a mean over the samples.
namespace hetpipe::graph {

// Labels that follow from an input by its elements' places.
struct LabelSource {
  std::string input;  // of the model
  std::vector<std::int32_t>
      from;  // for each label of a sample, its element of the input's; -1: none
  bool operator==(const LabelSource&) const = default;
};

// A part of the sum that the number is.
struct OwnTerm {
  double weight = 1;
  // Cross-entropy of a prediction, whose classes are dimension 1; or else the mean of a value's
  // elements, those of all samples.
  bool cross_entropy = false;
  std::string value;
  LabelSource labels = {};
  float smoothing = 0;
  int ignore_index = -100;
  std::string class_weights = {};  // name of a constant or buffer; empty: none
};

// Takes the number apart; adds nodes to the graph for errors that are squared, absolute, or binary
// cross-entropies. UserError naming module and line where it is no sum of means over the samples.
std::vector<OwnTerm> own_terms(Graph& graph, const std::string& value);

// The inputs that these values need, in the graph's order.
std::vector<Input> inputs_needed(const Graph& graph, const std::vector<std::string>& values);

}  // namespace hetpipe::graph
