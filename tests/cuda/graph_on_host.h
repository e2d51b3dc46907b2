// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/dnn/graph.h"

// Computes a graph on the host, operation by operation, by plain loops in double: whether a graph
// says what its layer means can so be tested without a GPU.
namespace hetpipe::cuda {

// One for each of the graph's memories, from its first element to its last; those that the graph
// writes are written.
void compute_on_host(const Graph& graph, std::vector<double*> memories);

}  // namespace hetpipe::cuda
