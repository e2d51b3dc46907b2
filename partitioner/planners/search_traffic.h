// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "partitioner/planners/search_space.h"

// What the search takes into account of links before it simulates a plan of unreplicated stages:
// by bytes and bandwidths alone. Nodes are called by names that belong to the plan.
namespace hetpipe {

// Of a pass through all stages, what stages wait while a pipeline fills and drains: where the
// gradients of weights are left for last (ZB-H1), they fill two thirds of it.
constexpr double kBubbleOfSplit = 1.0 / 3;

// Seconds that a synchronisation takes.
struct SyncSeconds {
  double push = 0;
  double pull = 0;
  std::vector<std::vector<double>> pulls;  // [virtual worker][stage], of its own part
  double inside = 0;                       // most of one device's way to its own node's server
  std::map<std::string_view, double> out;  // by node: what its interface sends and
  std::map<std::string_view, double> in;   // receives of both
  double both() const { return push + pull; }
};

// paces: of the plan's virtual workers. Without a server, `push` is the all-reduce, as far as it
// does not pass while stages are idle.
SyncSeconds sync_seconds(const SearchSpace& space, const Plan& plan,
                         const std::vector<WorkerPace>& paces);

// What the nodes' interfaces send and receive of activations and gradients: seconds per minibatch.
struct MessageSeconds {
  std::map<std::string_view, double> out, in;  // by node
};

MessageSeconds message_seconds(const std::vector<WorkerPace>& paces, const Plan& plan);

// Of the busiest interface: messages of a minibatch, and its share of a synchronisation.
double busiest(const std::map<std::string_view, double>& messages,
               const std::map<std::string_view, double>& sync, double wave);

}  // namespace hetpipe
