// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_effort.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

constexpr std::size_t kFewestDevices = 6;
constexpr std::size_t kFewDevices = 15;
constexpr std::size_t kFewKinds = 4;  // each counted on every node that has it
constexpr std::int64_t kTimesLonger = 4;
constexpr std::int64_t kBaseActions = 250'000;
constexpr std::int64_t kActionsPerDevice = 25'000;
constexpr int kManyDevices = 128;
constexpr std::int64_t kActionsPerFurther = 5'000;  // device

std::int64_t usual_actions(int devices) {
  return kBaseActions + kActionsPerDevice * std::min(devices, kManyDevices) +
         kActionsPerFurther * std::max(0, devices - kManyDevices);
}

bool has_few_kinds(const Cluster& cluster) {
  std::set<std::pair<std::string, int>> kinds;
  for (const Node& node : cluster.nodes) {
    for (const int kind : node.kinds) kinds.emplace(node.name, kind);
  }
  return kinds.size() <= kFewKinds;
}

}  // namespace

SearchEffort search_effort(const Cluster& cluster) {
  const std::size_t devices = cluster.devices().size();
  SearchEffort effort;
  effort.actions = usual_actions(static_cast<int>(devices));
  if (devices > kFewDevices && (devices > kSmallPool || has_few_kinds(cluster))) return effort;
  effort.actions *= kTimesLonger;
  effort.simulated = 16;
  effort.plans_first = true;
  effort.hopeless = 0.5;
  if (devices > kFewestDevices) effort.cutting = 100'000;  // they have more orders
  effort.without_each = true;
  effort.may_gain = effort.may_reach = 0.65;
  effort.cuts_anew = true;
  effort.starts = {16, 4};
  effort.polished = 16;
  effort.worth_polishing = 0.85;
  effort.polishing = 16;
  effort.exchanges_again = true;
  effort.several_cuts = true;
  effort.alone_whatever = devices <= kFewestDevices;
  effort.near_alone = effort.alone_whatever ? 0.5 : 0.9;
  effort.leaves_out_groups = true;
  effort.anneals = true;
  effort.may_start = 0.7;
  return effort;
}

}  // namespace hetpipe
