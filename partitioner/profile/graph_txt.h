// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/profile/profile.h"

// PipeDream's profile, graph.txt, which DAPPLE writes too: one line per node, one per edge.
//   node3 -- Conv2d(3, 64, ...) -- forward_compute_time=1.5, backward_compute_time=3.1,
//   activation_size=411041792.0, parameter_size=7168.0
//   <tab>node3 -- node4
// Times are milliseconds, sizes bytes; several outputs stand as "[a; b; c]" and count together.
// What the format leaves out: the kind of device, and the batch.
namespace hetpipe {

// Whether a text is meant as graph.txt (its first line begins with a node) rather than as TOML.
bool looks_like_graph_txt(std::string_view text);

struct GraphTxt {
  Profile profile;
  // How the batch was derived when it was not given, and what was left out of the times; a line
  // each, usually none.
  std::string note;
};

// The graph as it stands: nodes in topological order (of those that could come next the one with
// the smallest number, which is the order of execution), branches as layers with several inputs.
// Unread nodes other than the last are outputs (auxiliary heads); only unread "__getitem__", which
// carry no time, are left out, as by PipeDream's optimizer. Nodes called Input hold the time of
// loading data, which runs on no GPU: they stay, without time. stash_bytes are output_bytes: the
// format has nothing else, and PipeDream's memory model takes them so. A layer is named by its node
// and its type ("node3 Conv2d"). UserError with all of the file's problems: unreadable lines,
// negative or absurd numbers, nodes and edges that stand twice, edges of unknown nodes, cycles,
// several components, an unknown device or batch.
GraphTxt parse_graph_txt(std::string_view text, const std::string& file,
                         const ProfileOrigin& origin);

}  // namespace hetpipe
