// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/profile/graph_lines.h"

// The graph of a graph.txt's nodes: one connected network without cycles, and the order of its
// layers.
namespace hetpipe {

struct GraphOrder {
  std::vector<int> order;                // indices of nodes
  std::vector<std::vector<int>> inputs;  // of each node, as indices
};

// An LSTM returns its states beside its output; those that nobody takes ("__getitem__" without time
// and reader) are no layers.
void leave_out_unread_items(GraphLines& graph);

// Kahn's algorithm; of the nodes whose producers are all placed, the one with the smallest number.
// A problem for a cycle, naming it.
GraphOrder topological_order(const GraphLines& graph, GraphProblems& problems);

// A problem for each component but the first: one network is one component. Nodes that nobody reads
// are fine within it (auxiliary heads).
void check_connected(const GraphLines& graph, GraphProblems& problems);

}  // namespace hetpipe
