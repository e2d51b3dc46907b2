// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/all_reduce.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "partitioner/cost/memory.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// [layer] -> the processes that hold it, ascending; empty for those that own no parameters.
std::vector<std::vector<int>> holders(std::span<const std::int64_t> own,
                                      std::span<const PlanProcess> processes) {
  std::vector<std::vector<int>> result(own.size());
  for (std::size_t p = 0; p < processes.size(); ++p) {
    for (const auto& [first, end] : processes[p].layers) {
      for (auto l = static_cast<std::size_t>(first); l < static_cast<std::size_t>(end); ++l) {
        if (own[l] > 0) result[l].push_back(static_cast<int>(p));
      }
    }
  }
  return result;
}

}  // namespace

std::vector<std::vector<int>> sharers(const Profile& profile,
                                      std::span<const PlanProcess> processes, ReduceScope scope) {
  std::vector<std::set<int>> shared(processes.size());
  for (const std::vector<int>& members : holders(own_parameter_bytes(profile), processes)) {
    for (const int one : members) {
      for (const int other : members) {
        const bool same = processes[static_cast<std::size_t>(one)].virtual_worker ==
                          processes[static_cast<std::size_t>(other)].virtual_worker;
        if (same || scope == ReduceScope::everybody) {
          shared[static_cast<std::size_t>(one)].insert(other);
        }
      }
    }
  }
  std::vector<std::vector<int>> result;
  for (const std::set<int>& members : shared) result.emplace_back(members.begin(), members.end());
  return result;
}

AllReduce::AllReduce(const Profile& profile, std::span<const PlanProcess> processes,
                     ReduceScope scope, Network& network, int minibatches)
    : seats_of_(processes.size()) {
  // The devices of a chain may be groups of several GPUs, all of whose parameters travel.
  std::map<std::vector<int>, double> bytes;
  const auto add = [&](const std::vector<int>& members, double of_layers) {
    if (members.size() < 2) return;
    int gpus = 1;
    for (const int m : members) {
      gpus = std::max(gpus, processes[static_cast<std::size_t>(m)].kind->gpus);
    }
    bytes[members] += gpus * of_layers;
  };
  const std::vector<std::int64_t> own = own_parameter_bytes(profile);
  // Between two of these layers the same processes hold all.
  std::set<int> borders;
  for (const PlanProcess& process : processes) {
    for (const auto& [first, end] : process.layers) borders.insert({first, end});
  }
  for (auto border = borders.begin(); border != borders.end(); ++border) {
    const auto next = std::next(border);
    if (next == borders.end()) break;
    const double of_layers =
        static_cast<double>(std::accumulate(own.begin() + *border, own.begin() + *next, 0LL));
    if (of_layers == 0) continue;
    std::map<int, std::vector<int>> together;  // by virtual worker, where only its own are
    for (std::size_t p = 0; p < processes.size(); ++p) {
      const bool holds = std::any_of(
          processes[p].layers.begin(), processes[p].layers.end(),
          [&](const auto& range) { return range.first <= *border && *border < range.second; });
      if (!holds) continue;
      const int group = scope == ReduceScope::everybody ? 0 : processes[p].virtual_worker;
      together[group].push_back(static_cast<int>(p));
    }
    for (const auto& [group, members] : together) add(members, of_layers);
  }
  for (const auto& [members, size] : bytes) {
    std::vector<DeviceName> devices;
    for (const int m : members) {
      devices.push_back(processes[static_cast<std::size_t>(m)].device);
      seats_of_[static_cast<std::size_t>(m)].push_back(
          {static_cast<int>(groups_.size()), static_cast<int>(devices.size()) - 1});
    }
    const auto piece = static_cast<double>(
        all_reduce_piece(static_cast<std::int64_t>(size), static_cast<int>(members.size())));
    groups_.push_back({Chain(network, devices),
                       {size, piece, kAllReducePosted * piece},
                       std::vector<Chain::Round>(static_cast<std::size_t>(minibatches))});
    for (std::size_t i = 0; i + 1 < devices.size(); ++i) {
      if (devices[i].node != devices[i + 1].node) bytes_between_nodes_ += 2 * size;
    }
  }
}

void AllReduce::join(EngineJob& job, int process, Minibatch p) {
  const auto at = static_cast<std::size_t>(p);
  for (const Seat& seat : seats_of_[static_cast<std::size_t>(process)]) {
    Group& group = groups_[static_cast<std::size_t>(seat.group)];
    Chain::Round& round = group.rounds[at];
    if (round.first < 0) {
      const Chain::Round before = at == 0 ? Chain::Round{} : group.rounds[at - 1];
      round = group.chain.add_round(job, group.bytes, before);
    }
    job.arrive(round.ready(seat.member));
  }
}

void AllReduce::wait(EngineJob& job, int process, Minibatch p) const {
  for (const Seat& seat : seats_of_[static_cast<std::size_t>(process)]) {
    const Group& group = groups_[static_cast<std::size_t>(seat.group)];
    const Chain::Round& round = group.rounds[static_cast<std::size_t>(p)];
    job.wait(round.ready(round.members - 1));
    job.wait_stream(round.done(seat.member));
  }
}

}  // namespace hetpipe
