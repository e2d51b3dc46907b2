// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "partitioner/planners/likely_cuts.h"

namespace hetpipe {
namespace {

constexpr int kLikelyPerStage = 6;
constexpr std::size_t kMostSplits = 20'000;  // some ten megabytes

// From the cuts that are looked at.
std::vector<int> next_of(const std::vector<bool>& cuts) {
  std::vector<int> next(cuts.size());
  for (std::size_t l = cuts.size(); l-- > 0;) {
    next[l] = cuts[l] ? static_cast<int>(l) : next[l + 1];
  }
  return next;
}

}  // namespace

PartitionSearch::PartitionSearch(const Cluster& cluster, const Profile& profile,
                                 const PartitionRequest& request, int patience)
    : m_(partition_model(cluster, profile, request)),
      next_allowed_(at_index(m_.layers + 1)),
      likely_(request.likely),
      likely_cuts_(request.likely_cuts),
      work_limit_(request.work),
      first_limit_(std::max<std::int64_t>(patience * work_limit_, request.first_work)) {
  allow_all();
}

void PartitionSearch::allow_all() {
  std::iota(next_allowed_.begin(), next_allowed_.end(), 0);
  ranges_.clear();
  likely_only_ = false;
}

void PartitionSearch::allow_likely() {
  const int number = std::max(likely_cuts_, kLikelyPerStage * m_.stages);
  if (likely_cuts_ == 0 || !many_more(m_.layers, number)) return allow_all();
  const PartitionDevice& device = m_.devices.front();
  const std::vector<double> crossing = crossing_bytes(m_.cuts->crossing, device.output());
  std::vector<bool> cuts(at_index(m_.layers + 1), false);
  for (const int cut : likely_cuts(device.compute(), crossing, number)) cuts[at_index(cut)] = true;
  next_allowed_ = next_of(cuts);
  ranges_.clear();
  likely_only_ = true;
}

// Up to the likely cuts on both sides of each.
void PartitionSearch::allow_near(const std::vector<int>& ends) {
  std::vector<std::pair<int, int>> ranges;
  for (const int end : ends) {
    if (end == m_.layers) break;
    int first = end - 1;
    while (!allowed(first)) --first;
    ranges.emplace_back(first, next_allowed_[at_index(end + 1)]);
  }
  allow_ranges(std::move(ranges));
}

void PartitionSearch::allow_ranges(std::vector<std::pair<int, int>> ends) {
  allow_all();
  ranges_ = std::move(ends);
  likely_only_ = true;
}

// Without any cut so far it is worth continuing for longer.
bool PartitionSearch::spent() const {
  if (found_.value < kInfinity) return work_ >= work_limit_;
  return work_ >= first_limit_;
}

std::optional<PartitionSearch::Found> PartitionSearch::best(Objective objective) {
  objective_ = objective;
  found_ = {};
  work_ = 0;
  lower_ = kNothingOpen;
  if (likely_) {
    allow_ranges(likely_->ends);
    search_order(likely_->order);
    if (!found_.order.empty()) return found_;
  }
  allow_likely();
  try_orders();
  if (found_.order.empty() && likely_only_ && !likely_) {  // other cuts may fit
    allow_all();
    work_ = 0;
    try_orders();
  }
  if (found_.order.empty()) return std::nullopt;
  if (likely_only_) {
    allow_near(found_.ends);
    work_limit_ += work_;
    search_order(std::vector<int>(found_.order));
  }
  return found_;
}

void PartitionSearch::try_orders() {
  try_good_orders();
  std::vector<int> order;
  std::vector<bool> used(m_.devices.size(), false);
  enumerate(order, used);
}

// With many devices most orders are only ruled out quickly beside a good one: take the fastest
// device first, then exchange two as long as that helps, with at most half of the work.
void PartitionSearch::try_good_orders() {
  if (m_.stages < 5 || objective_ == Objective::memory) return;
  std::vector<int> order;
  for (int d = 0; d < m_.stages; ++d) order.push_back(d);
  search_order(order);
  const auto seconds = [&](int d) { return m_.devices[at_index(d)].compute().back(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return seconds(a) < seconds(b); });
  search_order(order);
  std::reverse(order.begin(), order.end());
  search_order(order);
  bool better = !found_.order.empty();
  while (better) {
    better = false;
    for (std::size_t i = 0; i + 1 < m_.devices.size(); ++i) {
      for (std::size_t j = i + 1; j < m_.devices.size(); ++j) {
        std::vector<int> other = found_.order;
        std::swap(other[i], other[j]);
        if (m_.devices[at_index(other[i])].symmetry == m_.devices[at_index(other[j])].symmetry) {
          continue;
        }
        if (work_ > work_limit_ / 2) return;
        const double before = found_.value;
        search_order(other);
        better = better || found_.value < before;
      }
    }
  }
}

// All orders of the devices, up to symmetry, that could still win.
void PartitionSearch::enumerate(std::vector<int>& order, std::vector<bool>& used) {
  if (!can_win(order, used)) return;
  if (spent()) {
    int covered = 0;
    if (objective_ == Objective::time && found_.value < kInfinity) {
      for (const int d : order) covered = reach(m_.devices[at_index(d)], covered);
    }
    const std::vector<bool> none(m_.devices.size(), false);
    give_up(objective_ == Objective::memory
                ? 0
                : std::max(perfect_split(covered, used), perfect_split(0, none)));
    return;
  }
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
  const double limit = device.compute()[at_index(from)] + found_.value;
  const auto at = std::lower_bound(device.compute().begin(), device.compute().end(), limit);
  return static_cast<int>(at - device.compute().begin()) - 1;
}

// The devices that are not used need at least T for the layers from `covered` on, with T * sum(w)
// >= sum over the layers of min(w * seconds) for any weights w of theirs; with their speeds as
// weights this is the perfect split of the rest, computing alone.
double PartitionSearch::perfect_split(int covered, const std::vector<bool>& used) {
  auto known = splits_.find(used);
  if (known == splits_.end()) {
    if (splits_.size() >= kMostSplits) splits_.clear();
    double weights = 0;
    std::vector<std::pair<double, const PartitionDevice*>> others;
    for (std::size_t d = 0; d < m_.devices.size(); ++d) {
      if (used[d]) continue;
      others.emplace_back(1 / std::max(m_.devices[d].compute().back(), 1e-300), &m_.devices[d]);
      weights += others.back().first;
    }
    std::vector<double> rest(at_index(m_.layers + 1), 0.0);
    for (std::size_t l = at_index(m_.layers); l-- > 0 && weights > 0;) {
      double least = kInfinity;
      for (const auto& [weight, device] : others) {
        least = std::min(least, weight * (device->compute()[l + 1] - device->compute()[l]));
      }
      rest[l] = rest[l + 1] + least / weights;
    }
    work_ += m_.layers * static_cast<std::int64_t>(others.size());
    known = splits_.emplace(used, std::move(rest)).first;
  }
  return known->second[at_index(covered)];
}

// The devices placed so far take as many layers as they can in less than the best time; the others
// must do the rest.
bool PartitionSearch::can_win(const std::vector<int>& order, const std::vector<bool>& used) {
  if (objective_ == Objective::memory || found_.value == kInfinity) return true;
  int covered = 0;
  for (const int d : order) covered = reach(m_.devices[at_index(d)], covered);
  if (covered >= m_.layers) return true;
  ++work_;
  return perfect_split(covered, used) < found_.value;
}

void PartitionSearch::set_order(const std::vector<int>& order) {
  order_ = order;
  positions_.assign(order.size(), {});
  for (int k = 0; k < m_.stages; ++k) {
    Position& position = positions_[at_index(k)];
    position.device = &m_.devices[at_index(order[at_index(k)])];
    position.need = &m_.needs[at_index(k)];
    std::vector<int>& farthest = farthest_[{position.device->tables.get(), k}];
    if (farthest.empty()) farthest.assign(at_index(m_.layers + 1), -1);
    position.farthest = farthest.data();
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
