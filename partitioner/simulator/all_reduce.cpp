// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/all_reduce.h"

#include "partitioner/cost/memory.h"

#include <algorithm>
#include <map>
#include <string>

namespace hetpipe {
namespace {

// [layer] -> the processes that hold parameters of it, ascending; empty for those that own none.
std::vector<std::vector<int>> holders(const Profile& profile,
                                      std::span<const PlanProcess> processes) {
  std::map<std::string, std::size_t> named;
  std::vector<std::size_t> owner;
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    named[layer.name] = l;
    owner.push_back(layer.shares.empty() ? l : named.at(layer.shares));
  }
  std::vector<std::vector<int>> result(profile.layers.size());
  for (std::size_t p = 0; p < processes.size(); ++p) {
    for (const auto& [first, end] : processes[p].layers) {
      for (int l = first; l < end; ++l) {
        const std::size_t owned = owner[static_cast<std::size_t>(l)];
        std::vector<int>& of = result[owned];
        const bool known = !of.empty() && of.back() == static_cast<int>(p);
        if (profile.layers[owned].parameter_bytes > 0 && !known) of.push_back(static_cast<int>(p));
      }
    }
  }
  return result;
}

}  // namespace

AllReduce::AllReduce(const Profile& profile, std::span<const PlanProcess> processes,
                     ReduceScope scope, Network& network, int minibatches)
    : seats_of_(processes.size()) {
  // The devices of a chain may be groups of several GPUs, all of whose parameters travel.
  std::map<std::vector<int>, double> bytes;
  const auto add = [&](const std::vector<int>& members, double of_layer) {
    if (members.size() < 2) return;
    int gpus = 1;
    for (const int m : members) {
      gpus = std::max(gpus, processes[static_cast<std::size_t>(m)].kind->gpus);
    }
    bytes[members] += gpus * of_layer;
  };
  const auto all = holders(profile, processes);
  for (std::size_t l = 0; l < all.size(); ++l) {
    const auto of_layer = static_cast<double>(profile.layers[l].parameter_bytes);
    if (scope == ReduceScope::everybody) {
      add(all[l], of_layer);
      continue;
    }
    std::map<int, std::vector<int>> of_worker;
    for (const int p : all[l]) {
      of_worker[processes[static_cast<std::size_t>(p)].virtual_worker].push_back(p);
    }
    for (const auto& [vw, members] : of_worker) add(members, of_layer);
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
