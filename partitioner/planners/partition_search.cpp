// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_search.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::size_t at_index(int i) { return static_cast<std::size_t>(i); }

// The first consumer of a layer at or after `from`, or past the end.
int first_from(const std::vector<int>& consumers, int from) {
  const auto at = std::lower_bound(consumers.begin(), consumers.end(), from);
  return at == consumers.end() ? std::numeric_limits<int>::max() : *at;
}

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
    : layers_(static_cast<int>(profile.layers.size())),
      stages_(static_cast<int>(request.devices.size())),
      micro_batches_(request.micro_batches),
      shape_{stages_, request.in_flight, optimizer_slots(request.optimizer), request.server,
             request.clock_distance} {
  read_layers(profile);
  read_devices(cluster, profile, request);
  read_links(cluster, request);
}

void PartitionSearch::read_layers(const Profile& profile) {
  consumers_.resize(at_index(layers_));
  crossing_.resize(at_index(layers_ + 1));
  may_cut_.assign(at_index(layers_ + 1), true);
  parameters_.assign(1, 0);
  std::map<std::string, int> first_user;
  for (int l = 0; l < layers_; ++l) {
    const ProfileLayer& layer = profile.layers[at_index(l)];
    const std::string& owner = layer.shares.empty() ? layer.name : layer.shares;
    const auto [user, is_first] = first_user.emplace(owner, l);
    for (int cut = user->second + 1; cut <= l; ++cut) may_cut_[at_index(cut)] = false;
    parameters_.push_back(parameters_.back() + (is_first ? layer.parameter_bytes : 0));
    for (const int producer : layer.inputs) consumers_[at_index(producer)].push_back(l);
  }
  for (int l = 0; l < layers_; ++l) {
    if (consumers_[at_index(l)].empty()) continue;
    has_skips_ = has_skips_ || consumers_[at_index(l)].back() > l + 1;
    for (int cut = l + 1; cut <= consumers_[at_index(l)].back(); ++cut) {
      crossing_[at_index(cut)].push_back(l);
    }
  }
}

void PartitionSearch::read_devices(const Cluster& cluster, const Profile& profile,
                                   const PartitionRequest& request) {
  std::map<std::pair<std::string, std::string>, int> symmetries;  // (node, kind)
  std::map<std::string, int> nodes;
  for (const DeviceName& name : request.devices) {
    const DeviceKind& kind = cluster.kind_of(name);
    const LayerCosts costs = costs_on(profile, kind, request.minibatch / micro_batches_);
    Device device;
    device.symmetry =
        symmetries.emplace(std::pair(name.node, kind.name), static_cast<int>(symmetries.size()))
            .first->second;
    device.node = nodes.emplace(name.node, static_cast<int>(nodes.size())).first->second;
    device.memory = kind.memory;
    device.output = costs.output_bytes;
    device.compute.assign(1, 0.0);
    device.stash.assign(1, 0);
    for (std::size_t l = 0; l < costs.forward.size(); ++l) {
      device.compute.push_back(device.compute.back() +
                               micro_batches_ * (costs.forward[l] + costs.backward[l]));
      device.stash.push_back(device.stash.back() + micro_batches_ * costs.stash_bytes[l]);
    }
    device.output_max.push_back(device.output);
    for (std::size_t span = 1; 2 * span <= device.output.size(); span *= 2) {
      const auto& below = device.output_max.back();
      std::vector<std::int64_t> above(below.size() - span);
      for (std::size_t l = 0; l < above.size(); ++l) above[l] = std::max(below[l], below[l + span]);
      device.output_max.push_back(std::move(above));
    }
    devices_.push_back(std::move(device));
  }
  least_output_ = devices_[0].output;
  for (std::size_t l = 0; l < at_index(layers_); ++l) {
    for (const Device& device : devices_) {
      least_output_[l] = std::min(least_output_[l], device.output[l]);
    }
  }
}

void PartitionSearch::read_links(const Cluster& cluster, const PartitionRequest& request) {
  links_.resize(devices_.size());
  for (std::size_t a = 0; a < devices_.size(); ++a) {
    for (std::size_t b = 0; b < devices_.size(); ++b) {
      links_[a].push_back(a == b ? Link{} : cluster.link(request.devices[a], request.devices[b]));
    }
  }
  // Two nodes are alike when they bring the same kinds and no rule names a node: exchanging them
  // changes nothing.
  std::map<int, std::multiset<std::string>> kinds;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    kinds[devices_[d].node].insert(cluster.kind_of(request.devices[d]).name);
  }
  const bool nodes_named = std::any_of(cluster.between.begin(), cluster.between.end(),
                                       [](const LinkBetween& rule) { return !rule.nodes.empty(); });
  alike_before_.resize(kinds.size());
  for (int node = 0; node < static_cast<int>(kinds.size()) && !nodes_named; ++node) {
    for (int other = 0; other < node; ++other) {
      if (kinds[other] == kinds[node]) alike_before_[at_index(node)].push_back(other);
    }
  }
}

std::optional<PartitionSearch::Found> PartitionSearch::best(Objective objective) {
  objective_ = objective;
  found_ = {};
  std::vector<int> order;
  std::vector<bool> used(devices_.size(), false);
  enumerate(order, used);
  if (found_.order.empty()) return std::nullopt;
  return found_;
}

// All orders of the devices, up to symmetry, that could still win.
void PartitionSearch::enumerate(std::vector<int>& order, std::vector<bool>& used) {
  if (!can_win(order, used)) return;
  if (order.size() == devices_.size()) {
    search_order(order);
    return;
  }
  for (std::size_t d = 0; d < devices_.size(); ++d) {
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
    if (!used[d] && devices_[d].symmetry == devices_[device].symmetry) return false;
  }
  const auto touched = [&](int node) {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (used[d] && devices_[d].node == node) return true;
    }
    return false;
  };
  const int node = devices_[device].node;
  if (touched(node)) return true;
  const auto& first = alike_before_[at_index(node)];
  return std::all_of(first.begin(), first.end(), touched);
}

// How far a part that starts at `from` may reach in less than the best time, computing alone.
int PartitionSearch::reach(const Device& device, int from) const {
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
  for (const int d : order) covered = reach(devices_[at_index(d)], covered);
  if (covered >= layers_) return true;
  double weights = 0;
  std::vector<std::pair<double, const Device*>> others;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (used[d]) continue;
    others.emplace_back(1 / std::max(devices_[d].compute.back(), 1e-300), &devices_[d]);
    weights += others.back().first;
  }
  double work = 0;
  for (std::size_t l = at_index(covered); l < at_index(layers_); ++l) {
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
  for (int k = 0; k < stages_; ++k) {
    Position& position = positions_[at_index(k)];
    position.device = &devices_[at_index(order[at_index(k)])];
    position.ledger = ledger_factors(shape_, StageId{k});
    for (int other = 0; other < stages_; ++other) {
      if (other == k) continue;
      Link& best = other < k ? position.before : position.after;
      const Link& candidate = link(other, k);
      best = best.bandwidth == 0 ? candidate : better(best, candidate);
    }
  }
}

const Link& PartitionSearch::link(int from, int to) const {
  return links_[at_index(order_[at_index(from)])][at_index(order_[at_index(to)])];
}

void PartitionSearch::search_order(const std::vector<int>& order) {
  set_order(order);
  bound_starts();
  // Where parts may start tells which stages may hold a skip tensor's other end, and that sharpens
  // the relaxed costs, which in turn rule out starts.
  do {
    choose_ways();
    bound_suffixes();
    if (!wins(suffix_[0][0])) return;
  } while (has_skips_ && tighten_starts());
  cuts_.clear();
  seen_.clear();
  descend(0, 0);
}

bool PartitionSearch::may_hold(int k, int layer) const {
  return earliest_[at_index(k)] <= layer && layer < latest_[at_index(k + 1)];
}

// For every part and layer: the best link from an earlier and from a later part that may hold the
// layer.
void PartitionSearch::choose_ways() {
  const Link none{1e-300, kInfinity, false};
  before_.assign(at_index(stages_), std::vector<Link>(at_index(layers_), none));
  after_ = before_;
  for (int k = 0; k < stages_; ++k) {
    for (int other = 0; other < stages_; ++other) {
      if (other == k) continue;
      std::vector<Link>& ways = other < k ? before_[at_index(k)] : after_[at_index(k)];
      for (int l = earliest_[at_index(other)]; l < latest_[at_index(other + 1)]; ++l) {
        ways[at_index(l)] = better(ways[at_index(l)], link(other, k));
      }
    }
  }
}

// Gives up starts through which no cut can win; says whether any range became smaller.
bool PartitionSearch::tighten_starts() {
  std::vector<std::vector<double>> prefix(at_index(stages_ + 1),
                                          std::vector<double>(at_index(layers_ + 1), kInfinity));
  prefix[0][0] = 0;
  bool smaller = false;
  for (int k = 0; k + 1 < stages_; ++k) {
    for (int s = earliest_[at_index(k)]; s <= latest_[at_index(k)]; ++s) {
      const double so_far = prefix[at_index(k)][at_index(s)];
      if (!wins(so_far)) continue;
      for (int e = std::max(s + 1, earliest_[at_index(k + 1)]); e <= latest_[at_index(k + 1)];
           ++e) {
        if (!wins(value(without_messages(k, s, e), k))) break;
        double& best = prefix[at_index(k + 1)][at_index(e)];
        if (so_far >= best || !wins(suffix_[at_index(k + 1)][at_index(e)])) continue;
        best = std::min(best, std::max(so_far, value(relaxed(k, s, e), k)));
      }
    }
    int first = layers_;
    int last = 0;
    for (int e = earliest_[at_index(k + 1)]; e <= latest_[at_index(k + 1)]; ++e) {
      if (!wins(prefix[at_index(k + 1)][at_index(e)]) ||
          !wins(suffix_[at_index(k + 1)][at_index(e)])) {
        continue;
      }
      first = std::min(first, e);
      last = e;
    }
    smaller = smaller || first > earliest_[at_index(k + 1)] || last < latest_[at_index(k + 1)];
    earliest_[at_index(k + 1)] = first;
    latest_[at_index(k + 1)] = last;
  }
  return smaller;
}

// The layers at which part k may start, computing alone: no later than the parts before it reach,
// no earlier than those from it on can finish.
void PartitionSearch::bound_starts() {
  earliest_.assign(at_index(stages_ + 1), layers_);
  latest_.assign(at_index(stages_ + 1), layers_);
  latest_[0] = 0;
  const bool bounded = objective_ == Objective::time && found_.value < kInfinity;
  for (int k = 1; k < stages_; ++k) {
    const int most = layers_ - (stages_ - k);
    latest_[at_index(k)] =
        bounded ? std::min(most, reach(at(k - 1), latest_[at_index(k - 1)])) : most;
  }
  for (int k = stages_ - 1; k >= 0; --k) {
    earliest_[at_index(k)] = k;
    if (!bounded) continue;
    const auto& compute = at(k).compute;
    const double limit = compute[at_index(earliest_[at_index(k + 1)])] - found_.value;
    const auto first = std::upper_bound(compute.begin(), compute.end(), limit);
    earliest_[at_index(k)] = std::max(k, static_cast<int>(first - compute.begin()));
  }
}

// suffix_[k][s] = min over e of max(relaxed cost of [s, e) at k, suffix_[k + 1][e]).
void PartitionSearch::bound_suffixes() {
  suffix_.assign(at_index(stages_ + 1), std::vector<double>(at_index(layers_ + 1), kInfinity));
  suffix_[at_index(stages_)][at_index(layers_)] = 0;
  for (int k = stages_ - 1; k >= 0; --k) {
    for (int s = earliest_[at_index(k)]; s <= latest_[at_index(k)]; ++s) {
      if (s > 0 && !may_cut_[at_index(s)]) continue;
      double& best = suffix_[at_index(k)][at_index(s)];
      for (int e = std::max(s + 1, earliest_[at_index(k + 1)]); e <= latest_[at_index(k + 1)];
           ++e) {
        const double below = value(without_messages(k, s, e), k);
        if (!wins(below) || below >= best) break;
        const double rest = suffix_[at_index(k + 1)][at_index(e)];
        if (rest >= best || !wins(rest)) continue;
        best = std::min(best, std::max(rest, value(relaxed(k, s, e), k)));
      }
    }
  }
}

void PartitionSearch::descend(int k, int s) {
  if (k == stages_) {
    double worst = 0;
    for (int a = 0; a < stages_; ++a) worst = std::max(worst, value(with_cuts(a), a));
    if (wins(worst)) found_ = {order_, cuts_, worst};
    return;
  }
  if (has_skips_ && k > 0 && dominated(k, s)) return;
  std::vector<std::pair<double, int>> ends;  // bound, end
  for (int e = std::max(s + 1, earliest_[at_index(k + 1)]); e <= latest_[at_index(k + 1)]; ++e) {
    if (!wins(value(without_messages(k, s, e), k))) break;
    const double rest = suffix_[at_index(k + 1)][at_index(e)];
    if (!wins(rest)) continue;
    const double bound = std::max(rest, value(relaxed(k, s, e), k));
    if (wins(bound)) ends.emplace_back(bound, e);
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [bound, e] : ends) {
    if (!wins(bound)) return;
    cuts_.push_back(e);
    bool open = true;
    for (int a = k; a >= 0 && open; --a) open = wins(value(with_cuts(a), a));
    if (open) descend(k + 1, e);
    cuts_.pop_back();
  }
}

// What comes after a cut depends on what came before only through the parts that hold a tensor
// still to be sent, and through the costs so far. Of two beginnings with the same such parts, one
// that costs nowhere less than the other can be left out.
bool PartitionSearch::dominated(int k, int s) {
  std::vector<int> key{k, s};
  std::vector<bool> live(at_index(k), false);
  for (const int producer : crossing_[at_index(s)]) {
    const auto holder = std::upper_bound(cuts_.begin(), cuts_.end(), producer) - cuts_.begin();
    key.push_back(static_cast<int>(holder));
    live[static_cast<std::size_t>(holder)] = true;
  }
  std::vector<double> costs{0};  // the worst of the finished parts, then each unfinished one
  for (int a = 0; a < k; ++a) {
    const Bound bound = with_cuts(a);
    if (live[at_index(a)]) {
      costs.push_back(bound.seconds);
      costs.push_back(static_cast<double>(bound.memory));
    } else {
      costs[0] = std::max(costs[0], value(bound, a));
    }
  }
  auto& seen = seen_[std::move(key)];
  const auto no_more = [](const std::vector<double>& x, const std::vector<double>& y) {
    return std::equal(x.begin(), x.end(), y.begin(), [](double p, double q) { return p <= q; });
  };
  for (const auto& other : seen) {
    if (no_more(other, costs)) return true;
  }
  std::erase_if(seen, [&](const auto& other) { return no_more(costs, other); });
  seen.push_back(std::move(costs));
  return false;
}

double PartitionSearch::value(const Bound& bound, int k) const {
  const auto available = at(k).memory;
  if (objective_ == Objective::memory) {
    return static_cast<double>(bound.memory) / static_cast<double>(available);
  }
  return bound.memory > available ? kInfinity : bound.seconds;
}

std::int64_t PartitionSearch::memory(int k, int s, int e, std::int64_t received,
                                     std::int64_t sent) const {
  const Position& position = positions_[at_index(k)];
  const Device& device = *position.device;
  const auto level = at_index(static_cast<int>(std::bit_width(static_cast<unsigned>(e - s))) - 1);
  const auto& largest = device.output_max[level];
  const StageFootprint& factor = position.ledger;
  return factor.parameters * (parameters_[at_index(e)] - parameters_[at_index(s)]) +
         factor.stash * (device.stash[at_index(e)] - device.stash[at_index(s)]) +
         factor.received * received + factor.sent * sent +
         factor.largest_output *
             std::max(largest[at_index(s)], largest[at_index(e) - (std::size_t{1} << level)]);
}

PartitionSearch::Bound PartitionSearch::without_messages(int k, int s, int e) const {
  const auto& compute = at(k).compute;
  return {compute[at_index(e)] - compute[at_index(s)], memory(k, s, e, 0, 0)};
}

PartitionSearch::Bound PartitionSearch::relaxed(int k, int s, int e) const {
  const Position& position = positions_[at_index(k)];
  double seconds = 0;
  // Activations: the output of layer s - 1 comes from the stage before; what is older from any
  // earlier one.
  bool direct = false;
  bool distant = false;
  std::int64_t received = 0;
  for (const int producer : crossing_[at_index(s)]) {
    if (first_from(consumers_[at_index(producer)], s) >= e) continue;
    received += position.device->output[at_index(producer)];
    const bool from_neighbour = producer == s - 1;
    const Link& way = from_neighbour ? link(k - 1, k) : before_[at_index(k)][at_index(producer)];
    (from_neighbour ? direct : distant) = true;
    seconds += static_cast<double>(least_output_[at_index(producer)]) / way.bandwidth;
  }
  if (direct) seconds += link(k - 1, k).latency;
  if (distant && !direct) seconds += position.before.latency;
  // Gradients: of what layer e consumes they come from the stage behind, of the rest from any later
  // one.
  direct = distant = false;
  std::int64_t sent = 0;
  for (const int producer : crossing_[at_index(e)]) {
    if (producer < s) continue;
    sent += position.device->output[at_index(producer)];
    const int consumer = first_from(consumers_[at_index(producer)], e);
    const bool to_neighbour = consumer == e;
    const Link& way = to_neighbour ? link(k + 1, k) : after_[at_index(k)][at_index(consumer)];
    (to_neighbour ? direct : distant) = true;
    seconds += static_cast<double>(position.device->output[at_index(producer)]) / way.bandwidth;
  }
  if (direct) seconds += link(k + 1, k).latency;
  if (distant && !direct) seconds += position.after.latency;
  const auto& compute = position.device->compute;
  return {compute[at_index(e)] - compute[at_index(s)] + micro_batches_ * seconds,
          memory(k, s, e, micro_batches_ * received, micro_batches_ * sent)};
}

PartitionSearch::Bound PartitionSearch::with_cuts(int k) const {
  const int s = start(k);
  const int e = cuts_[at_index(k)];
  const int fixed_end = cuts_.back();
  const Position& position = positions_[at_index(k)];
  double seconds = 0;
  std::vector<bool> talks(at_index(stages_), false);
  const auto message = [&](int other, std::int64_t bytes) {
    const Link& way = link(other, k);
    if (!talks[at_index(other)]) seconds += way.latency;
    talks[at_index(other)] = true;
    seconds += static_cast<double>(bytes) / way.bandwidth;
  };
  std::int64_t received = 0;
  for (const int producer : crossing_[at_index(s)]) {
    if (first_from(consumers_[at_index(producer)], s) >= e) continue;
    int from = 0;
    while (cuts_[at_index(from)] <= producer) ++from;
    received += position.device->output[at_index(producer)];
    message(from, devices_[at_index(order_[at_index(from)])].output[at_index(producer)]);
  }
  std::int64_t sent = 0;
  bool beyond = false;  // some tensor also goes to a stage that is not fixed yet
  const int fixed = static_cast<int>(cuts_.size());
  for (const int producer : crossing_[at_index(e)]) {
    if (producer < s) continue;
    const std::int64_t bytes = position.device->output[at_index(producer)];
    const auto& consumers = consumers_[at_index(producer)];
    for (int to = k + 1; to < fixed; ++to) {
      if (first_from(consumers, start(to)) >= cuts_[at_index(to)]) continue;
      sent += bytes;
      message(to, bytes);
    }
    const int next = first_from(consumers, fixed_end);
    if (next >= layers_) continue;
    sent += bytes;
    if (next == fixed_end) {
      message(fixed, bytes);  // the next stage starts with it
    } else {
      beyond = true;
      double bandwidth = 1e-300;
      for (int to = fixed; to < stages_; ++to) {
        if (may_hold(to, next)) bandwidth = std::max(bandwidth, link(to, k).bandwidth);
      }
      seconds += static_cast<double>(bytes) / bandwidth;
    }
  }
  const bool any_later = std::any_of(talks.begin() + fixed, talks.end(), [](bool t) { return t; });
  if (beyond && !any_later) seconds += position.after.latency;
  const auto& compute = position.device->compute;
  return {compute[at_index(e)] - compute[at_index(s)] + micro_batches_ * seconds,
          memory(k, s, e, micro_batches_ * received, micro_batches_ * sent)};
}

std::optional<std::vector<int>> PartitionSearch::smallest_sum(const std::vector<int>& order,
                                                              double limit) {
  objective_ = Objective::time;
  found_ = {};
  set_order(order);
  bound_starts();
  choose_ways();
  const auto width = at_index(layers_ + 1);
  std::vector<std::vector<double>> sum(at_index(stages_ + 1),
                                       std::vector<double>(width, kInfinity));
  std::vector<std::vector<int>> end(at_index(stages_), std::vector<int>(width, 0));
  sum[at_index(stages_)][at_index(layers_)] = 0;
  for (int k = stages_ - 1; k >= 0; --k) {
    for (int s = k; s <= (k == 0 ? 0 : layers_ - (stages_ - k)); ++s) {
      if (s > 0 && !may_cut_[at_index(s)]) continue;
      for (int e = s + 1; e <= layers_ - (stages_ - 1 - k); ++e) {
        if (value(without_messages(k, s, e), k) > limit) break;
        const double rest = sum[at_index(k + 1)][at_index(e)];
        if (rest == kInfinity) continue;
        const double cost = value(relaxed(k, s, e), k);
        if (cost > limit || cost + rest >= sum[at_index(k)][at_index(s)]) continue;
        sum[at_index(k)][at_index(s)] = cost + rest;
        end[at_index(k)][at_index(s)] = e;
      }
    }
  }
  if (sum[0][0] == kInfinity) return std::nullopt;
  std::vector<int> ends;
  for (int k = 0, s = 0; k < stages_; ++k) ends.push_back(s = end[at_index(k)][at_index(s)]);
  return ends;
}

}  // namespace hetpipe
