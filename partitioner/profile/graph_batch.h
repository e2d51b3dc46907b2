// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

#include "partitioner/profile/graph_lines.h"

// The samples per call behind a graph.txt, which the format itself does not keep.
namespace hetpipe {

// DAPPLE's names: 32 of "vgg-19-pbs-32.txt".
std::optional<int> batch_in_name(const std::string& file);

// The model's name: the file's, without that batch and the ending; for a file named graph.txt its
// folder's, as PipeDream keeps them.
std::string graph_model_of(const std::string& file);

struct BatchFound {
  int batch = 0;
  std::string witness;  // "node41 Linear(...)"
};

// From layers whose output per sample is known, in fp32: the state of an LSTM (its size), and
// behind convolutions a linear layer (its output features; elsewhere it may work on sequences).
// Nothing when there is none, or when they disagree.
std::optional<BatchFound> batch_in_layers(std::span<const GraphNode> nodes);

}  // namespace hetpipe
