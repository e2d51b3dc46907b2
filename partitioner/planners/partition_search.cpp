// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_search.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace hetpipe {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
Link better(const Link& a, const Link& b) {
  return {std::max(a.bandwidth, b.bandwidth), std::min(a.latency, b.latency), false};
}

// The ledger's total is linear in the footprint: what it charges for one byte of each.
StageFootprint ledger_factors(const PipelineShape& shape, StageId stage) {
  const auto of = [&](std::int64_t StageFootprint::*member) {
    StageFootprint one;
    one.*member = 1;
    return stage_ledger(one, shape, stage).total();
  };
  return {of(&StageFootprint::parameters), of(&StageFootprint::stash),
          of(&StageFootprint::received), of(&StageFootprint::sent),
          of(&StageFootprint::largest_output)};
}

}  // namespace

PartitionSearch::PartitionSearch(const Cluster& cluster, const Profile& profile,
                                 const PartitionRequest& request)
    : m_(partition_model(cluster, profile, request)) {}

std::optional<PartitionSearch::Found> PartitionSearch::best(Objective objective) {
  objective_ = objective;
  found_ = {};
  std::vector<int> order;
  std::vector<bool> used(m_.devices.size(), false);
  enumerate(order, used);
  if (found_.order.empty()) return std::nullopt;
  return found_;
}

// All orders of the devices, up to symmetry, that could still win.
void PartitionSearch::enumerate(std::vector<int>& order, std::vector<bool>& used) {
  if (!can_win(order, used)) return;
  if (order.size() == m_.devices.size()) {
    search_order(order);
    return;
  }
  for (std::size_t d = 0; d < m_.devices.size(); ++d) {
    if (used[d] || !may_follow(used, d)) continue;
    used[d] = true;
    order.push_back(static_cast<int>(d));
    enumerate(order, used);
    order.pop_back();
    used[d] = false;
  }
}

// Of devices that may change places the first unused one goes first; so do nodes that are alike.
bool PartitionSearch::may_follow(const std::vector<bool>& used, std::size_t device) const {
  for (std::size_t d = 0; d < device; ++d) {
    if (!used[d] && m_.devices[d].symmetry == m_.devices[device].symmetry) return false;
  }
  const auto touched = [&](int node) {
    for (std::size_t d = 0; d < m_.devices.size(); ++d) {
      if (used[d] && m_.devices[d].node == node) return true;
    }
    return false;
  };
  const int node = m_.devices[device].node;
  if (touched(node)) return true;
  const auto& first = m_.alike_before[at_index(node)];
  return std::all_of(first.begin(), first.end(), touched);
}

// How far a part that starts at `from` may reach in less than the best time, computing alone.
int PartitionSearch::reach(const PartitionDevice& device, int from) const {
  const double limit = device.compute[at_index(from)] + found_.value;
  const auto at = std::lower_bound(device.compute.begin(), device.compute.end(), limit);
  return static_cast<int>(at - device.compute.begin()) - 1;
}

// A bound on computing alone: the devices placed so far take as many layers as they can in less
// than the best time. The others then need at least T with T * sum(w) >= sum over the layers of
// min(w * seconds), for any weights w of theirs; with their speeds as weights this is the perfect
// split of the rest.
bool PartitionSearch::can_win(const std::vector<int>& order, const std::vector<bool>& used) const {
  if (objective_ == Objective::memory || found_.value == kInfinity) return true;
  int covered = 0;
  for (const int d : order) covered = reach(m_.devices[at_index(d)], covered);
  if (covered >= m_.layers) return true;
  double weights = 0;
  std::vector<std::pair<double, const PartitionDevice*>> others;
  for (std::size_t d = 0; d < m_.devices.size(); ++d) {
    if (used[d]) continue;
    others.emplace_back(1 / std::max(m_.devices[d].compute.back(), 1e-300), &m_.devices[d]);
    weights += others.back().first;
  }
  double work = 0;
  for (std::size_t l = at_index(covered); l < at_index(m_.layers); ++l) {
    double least = kInfinity;
    for (const auto& [weight, device] : others) {
      least = std::min(least, weight * (device->compute[l + 1] - device->compute[l]));
    }
    work += least;
    if (work >= weights * found_.value) return false;
  }
  return true;
}

void PartitionSearch::set_order(const std::vector<int>& order) {
  order_ = order;
  positions_.assign(order.size(), {});
  for (int k = 0; k < m_.stages; ++k) {
    Position& position = positions_[at_index(k)];
    position.device = &m_.devices[at_index(order[at_index(k)])];
    position.ledger = ledger_factors(m_.shape, StageId{k});
    for (int other = 0; other < m_.stages; ++other) {
      if (other == k) continue;
      Link& best = other < k ? position.before : position.after;
      const Link& candidate = link(other, k);
      best = best.bandwidth == 0 ? candidate : better(best, candidate);
    }
  }
}

const Link& PartitionSearch::link(int from, int to) const {
  return m_.links[at_index(order_[at_index(from)])][at_index(order_[at_index(to)])];
}
}  // namespace hetpipe
