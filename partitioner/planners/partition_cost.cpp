// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_search.h"

#include <algorithm>
#include <limits>

namespace hetpipe {
namespace {

// The first consumer of a layer at or after `from`, or past the end.
int first_from(const std::vector<int>& consumers, int from) {
  const auto at = std::lower_bound(consumers.begin(), consumers.end(), from);
  return at == consumers.end() ? std::numeric_limits<int>::max() : *at;
}

}  // namespace

double PartitionSearch::memory_value(int k, std::int64_t bytes) const {
  return static_cast<double>(bytes) / static_cast<double>(at(k).memory);
}

double PartitionSearch::value(const Bound& bound, int k) const {
  if (objective_ == Objective::memory) return memory_value(k, bound.memory);
  return bound.memory > at(k).memory ? kInfinity : bound.seconds;
}

std::int64_t PartitionSearch::memory(int k, int s, int e, std::int64_t received, std::int64_t sent,
                                     const PipelineBound::Tied& tied) const {
  const Position& position = positions_[at_index(k)];
  return position.need->bytes(position.device->footprints(), s, e, received, sent, tied);
}

bool PartitionSearch::fits(int k, int s, int e, std::int64_t received, std::int64_t sent,
                           const PipelineBound::Tied& tied) const {
  const Position& position = positions_[at_index(k)];
  const PartitionDevice& device = *position.device;
  return position.need->fits(device.footprints(), s, e, received, sent, tied, device.memory);
}

// Weights come from any earlier part, gradients from any later one; each is a message of its own.
PartitionSearch::TiedBound PartitionSearch::tied_relaxed(int k, int s, int e) const {
  TiedBound bound;
  for (const TiedWeight& tied : m_.cuts->tied) {
    if (!tied.held_by(s, e)) continue;
    const auto bytes = static_cast<double>(tied.bytes);
    if (tied.owner < s) {
      bound.seconds += before_[at_index(k)][at_index(tied.owner)].transfer_seconds(bytes);
    }
    if (!tied.used_from(e)) continue;
    bound.seconds += after_[at_index(k)][at_index(tied.first_from(e))].transfer_seconds(bytes);
    bound.bytes.received += tied.bytes;
    if (tied.owner >= s) bound.bytes.sent += tied.bytes;
  }
  return bound;
}

PartitionSearch::TiedBound PartitionSearch::tied_with_cuts(int k, int s, int e) const {
  TiedBound bound;
  const int fixed = static_cast<int>(cuts_.size());
  const auto part_of = [&](int layer) {  // `fixed`: not fixed yet
    int part = 0;
    while (part < fixed && cuts_[at_index(part)] <= layer) ++part;
    return part;
  };
  for (const TiedWeight& tied : m_.cuts->tied) {
    if (!tied.held_by(s, e)) continue;
    const auto bytes = static_cast<double>(tied.bytes);
    if (tied.owner < s) bound.seconds += link(part_of(tied.owner), k).transfer_seconds(bytes);
    if (!tied.used_from(e)) continue;
    bound.bytes.received += tied.bytes;
    const int next = tied.first_from(e);
    if (const int part = part_of(next); part < fixed) {
      bound.seconds += link(part, k).transfer_seconds(bytes);
    } else {
      Link way{1e-300, kInfinity, false};
      for (int to = fixed; to < m_.stages; ++to) {
        if (may_hold(to, next)) way = better(way, link(to, k));
      }
      bound.seconds += way.transfer_seconds(bytes);
    }
    if (tied.owner < s) continue;
    int last = k;  // part that it has been counted for
    for (const int user : tied.users) {
      const int part = part_of(user);
      if (part == last) continue;
      bound.bytes.sent += tied.bytes;
      last = part;
    }
  }
  return bound;
}

bool PartitionSearch::may_be_below(double limit, int k, int s, int e) const {
  if (objective_ == Objective::memory) return memory_value(k, memory(k, s, e, 0, 0, {})) < limit;
  return computing(k, s, e) < limit && e <= farthest_that_fits(k, s);
}

double PartitionSearch::relaxed(double limit, int k, int s, int e) {
  const std::vector<int>& before = m_.cuts->crossing[at_index(s)];
  const std::vector<int>& behind = m_.cuts->crossing[at_index(e)];
  work_ += 1 + static_cast<std::int64_t>(before.size() + behind.size());
  const Position& position = positions_[at_index(k)];
  const std::vector<std::int64_t>& output = position.device->output();
  const double compute = computing(k, s, e);
  double seconds = 0;
  const auto too_slow = [&] {  // the rest only adds to it
    return objective_ == Objective::time && compute + m_.micro_batches * seconds >= limit;
  };
  // Activations: the output of layer s - 1 comes from the stage before; what is older from any
  // earlier one.
  bool direct = false;
  bool distant = false;
  std::int64_t received = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (m_.cuts->next_reader[at_index(s)][i] >= e) continue;
    const int producer = before[i];
    received += output[at_index(producer)];
    const bool from_neighbour = producer == s - 1;
    const Link& way = from_neighbour ? link(k - 1, k) : before_[at_index(k)][at_index(producer)];
    (from_neighbour ? direct : distant) = true;
    seconds += static_cast<double>(m_.least_output[at_index(producer)]) / way.bandwidth;
  }
  if (direct) seconds += link(k - 1, k).latency;
  if (distant && !direct) seconds += position.before.latency;
  if (too_slow()) return kInfinity;
  // Gradients: of what layer e consumes they come from the stage behind, of the rest from any later
  // one.
  direct = distant = false;
  std::int64_t sent = 0;
  for (std::size_t i = 0; i < behind.size(); ++i) {
    const int producer = behind[i];
    if (producer < s) continue;
    sent += output[at_index(producer)];
    const int consumer = m_.cuts->next_reader[at_index(e)][i];
    const bool to_neighbour = consumer == e;
    const Link& way = to_neighbour ? link(k + 1, k) : after_[at_index(k)][at_index(consumer)];
    (to_neighbour ? direct : distant) = true;
    seconds += static_cast<double>(output[at_index(producer)]) / way.bandwidth;
  }
  if (direct) seconds += link(k + 1, k).latency;
  if (distant && !direct) seconds += position.after.latency;
  if (too_slow()) return kInfinity;
  const TiedBound tied = m_.cuts->tied.empty() ? TiedBound() : tied_relaxed(k, s, e);
  if (objective_ == Objective::memory) {
    return memory_value(k, memory(k, s, e, received, sent, tied.bytes));
  }
  if (!fits(k, s, e, received, sent, tied.bytes)) return kInfinity;
  return compute + m_.micro_batches * seconds + tied.seconds;
}

PartitionSearch::Bound PartitionSearch::with_cuts(int k) {
  const int s = start(k);
  const int e = cuts_[at_index(k)];
  const int fixed_end = cuts_.back();
  work_ += 1 + static_cast<std::int64_t>(m_.cuts->crossing[at_index(s)].size() +
                                         m_.cuts->crossing[at_index(e)].size());
  const Position& position = positions_[at_index(k)];
  double seconds = 0;
  std::vector<bool> talks(at_index(m_.stages), false);
  const auto message = [&](int other, std::int64_t bytes) {
    const Link& way = link(other, k);
    if (!talks[at_index(other)]) seconds += way.latency;
    talks[at_index(other)] = true;
    seconds += static_cast<double>(bytes) / way.bandwidth;
  };
  std::int64_t received = 0;
  for (const int producer : m_.cuts->crossing[at_index(s)]) {
    if (first_from(m_.cuts->readers[at_index(producer)], s) >= e) continue;
    int from = 0;
    while (cuts_[at_index(from)] <= producer) ++from;
    received += position.device->output()[at_index(producer)];
    message(from, m_.devices[at_index(order_[at_index(from)])].output()[at_index(producer)]);
  }
  std::int64_t sent = 0;
  bool beyond = false;  // some tensor also goes to a stage that is not fixed yet
  const int fixed = static_cast<int>(cuts_.size());
  for (const int producer : m_.cuts->crossing[at_index(e)]) {
    if (producer < s) continue;
    const std::int64_t bytes = position.device->output()[at_index(producer)];
    const auto& consumers = m_.cuts->readers[at_index(producer)];
    for (int to = k + 1; to < fixed; ++to) {
      if (first_from(consumers, start(to)) >= cuts_[at_index(to)]) continue;
      sent += bytes;
      message(to, bytes);
    }
    const int next = first_from(consumers, fixed_end);
    if (next >= m_.layers) continue;
    sent += bytes;
    if (next == fixed_end) {
      message(fixed, bytes);  // the next stage starts with it
    } else {
      beyond = true;
      double bandwidth = 1e-300;
      for (int to = fixed; to < m_.stages; ++to) {
        if (may_hold(to, next)) bandwidth = std::max(bandwidth, link(to, k).bandwidth);
      }
      seconds += static_cast<double>(bytes) / bandwidth;
    }
  }
  const bool any_later = std::any_of(talks.begin() + fixed, talks.end(), [](bool t) { return t; });
  if (beyond && !any_later) seconds += position.after.latency;
  const auto& compute = position.device->compute();
  const TiedBound tied = m_.cuts->tied.empty() ? TiedBound() : tied_with_cuts(k, s, e);
  return {compute[at_index(e)] - compute[at_index(s)] + m_.micro_batches * seconds + tied.seconds,
          memory(k, s, e, received, sent, tied.bytes)};
}

}  // namespace hetpipe
