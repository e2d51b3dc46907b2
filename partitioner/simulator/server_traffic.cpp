// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/server_traffic.h"

#include <algorithm>
#include <map>
#include <utility>

#include "partitioner/plan/placement.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// Of a parameter: a damped step of Adam by one core, in its caches and beyond
// (benchmarks/results/2026-11-28-server-step.md).
constexpr double kCached = 1e6;  // parameters
constexpr double kCachedSeconds = 3e-9;
constexpr double kSeconds = 11e-9;

// Of the shard with most parameters.
double step_seconds(const std::vector<std::int64_t>& parameter_bytes,
                    const std::vector<int>& shard_of) {
  std::map<int, double> parameters;
  for (std::size_t l = 0; l < shard_of.size(); ++l) {
    parameters[shard_of[l]] += static_cast<double>(parameter_bytes[l]) / sizeof(float);
  }
  double most = 0;
  for (const auto& [shard, count] : parameters) {
    if (shard >= 0) most = std::max(most, count);
  }
  return kCachedSeconds * std::min(most, kCached) + kSeconds * std::max(most - kCached, 0.0);
}

}  // namespace

ServerTraffic::ServerTraffic(const Plan& plan, SyncRule sync, const WaveRules& rules,
                             const Profile& profile, std::span<const PlanProcess> processes,
                             Network& network, EngineJob& job)
    : sync_(sync),
      rules_(rules),
      newest_(!traits(sync).bounded || plan.server->pulls_newest()),
      gates_(newest_ ? plan.virtual_workers.size() : 0) {
  const double pushed = plan.server->halves_pushes() ? 0.5 : 1;
  const std::vector<std::int64_t> parameter_bytes = own_parameter_bytes(profile);
  const std::vector<int> shard_of = shard_of_layers(plan, parameter_bytes);
  if (traits(sync).steps) step_seconds_ = step_seconds(parameter_bytes, shard_of);
  for (const PlanProcess& process : processes) {
    std::map<int, double> bytes;
    for (const auto& [first, end] : process.layers) {
      for (auto l = static_cast<std::size_t>(first); l < static_cast<std::size_t>(end); ++l) {
        if (shard_of[l] < 0) continue;
        // A group of GPUs moves the parameters of each of them.
        bytes[shard_of[l]] += static_cast<double>(process.kind->gpus * parameter_bytes[l]);
      }
    }
    std::vector<Part> parts;
    for (const auto& [shard, size] : bytes) {
      const DeviceName server{plan.server->nodes[static_cast<std::size_t>(shard)], -1};
      Part part;
      part.push_route = network.add_server_route(process.device, server, {});
      const double there = job.routes.back().latency;
      part.pull_route = network.add_server_route(server, process.device, {});
      const double back = job.routes.back().latency;
      // Replicas have reduced their gradients: each pushes its piece of the sum.
      part.push_bytes = pushed * size / process.replicas;
      part.pull_bytes = size;
      part.there = there;
      part.back = back;
      if (newest_) job.routes.back().latency += there;  // the question
      if (process.device.node != server.node) {
        bytes_between_nodes_ += part.push_bytes + part.pull_bytes;
      }
      parts.push_back(part);
    }
    parts_.push_back(std::move(parts));
    worker_.push_back(process.virtual_worker);
    front_.push_back(process.position == 0);
    asks_for_.push_back(front_.back() && process.replica == 0 ? process.virtual_worker : -1);
  }
  if (traits(sync).bounded) {
    add_labels(processes, job);
  } else {
    add_own_waves(processes, job);
  }
}

// Whether its last push that the label holds is of the wave just below: it has not ended before.
bool ServerTraffic::pushes(const PlanProcess& process, Label label) const {
  return label <= rules_.end_wave(VirtualWorkerId{process.virtual_worker});
}

void ServerTraffic::add_labels(std::span<const PlanProcess> processes, EngineJob& job) {
  const Label last = rules_.end_label();
  complete_.assign(static_cast<std::size_t>(last) + 1, -1);
  arrived_ = complete_;
  answered_.resize(static_cast<std::size_t>(last) + 1);
  const int step = step_seconds_ > 0 ? job.add_route({.latency = step_seconds_}) : -1;
  for (Label label = 1; label <= last; ++label) {
    int counts = 0;
    for (std::size_t p = 0; p < processes.size(); ++p) {
      if (pushes(processes[p], label)) counts += std::max(1, static_cast<int>(parts_[p].size()));
    }
    const auto l = static_cast<std::size_t>(label);
    complete_[l] = arrived_[l] = job.add_signal(counts);
    if (step >= 0) {
      complete_[l] = job.add_signal();
      job.start_on(arrived_[l], job.add_transfer(step, 0, complete_[l]));
    }
    if (newest_ || label > rules_.bound_label(last - 1)) continue;  // it is not requested ahead
    add_answers(processes, label, job);
  }
}

void ServerTraffic::add_own_waves(std::span<const PlanProcess> processes, EngineJob& job) {
  complete_.assign(static_cast<std::size_t>(rules_.end_label()) + 1, -1);
  for (int i = 0; i < rules_.workers(); ++i) {
    int counts = 0;
    for (std::size_t p = 0; p < processes.size(); ++p) {
      if (worker_[p] == i) counts += std::max(1, static_cast<int>(parts_[p].size()));
    }
    std::vector<int>& waves = own_.emplace_back();
    for (Wave wave = 0; wave < rules_.end_wave(VirtualWorkerId{i}); ++wave) {
      waves.push_back(job.add_signal(counts));
    }
  }
}

// Fires when what a process pushes of this wave is in, with all that belongs to it.
int ServerTraffic::arrival_of(int process, Wave wave) const {
  const auto w = static_cast<std::size_t>(wave);
  if (own_.empty()) return arrived_[w + 1];
  return own_[static_cast<std::size_t>(worker_[static_cast<std::size_t>(process)])][w];
}

// Front stages are answered first: by position, then by virtual worker and replica.
void ServerTraffic::add_answers(std::span<const PlanProcess> processes, Label label,
                                EngineJob& job) {
  std::vector<int> order;
  for (std::size_t p = 0; p < processes.size(); ++p) order.push_back(static_cast<int>(p));
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return processes[static_cast<std::size_t>(a)].position <
           processes[static_cast<std::size_t>(b)].position;
  });
  const auto l = static_cast<std::size_t>(label);
  answered_[l].assign(processes.size(), -1);
  for (const int process : order) {
    const std::vector<Part>& parts = parts_[static_cast<std::size_t>(process)];
    if (parts.empty()) continue;
    const int answer = job.add_signal(static_cast<int>(parts.size()));
    answered_[l][static_cast<std::size_t>(process)] = answer;
    for (const Part& part : parts) {
      job.start_on(complete_[l], job.add_transfer(part.pull_route, part.pull_bytes, answer));
    }
  }
}

void ServerTraffic::push(EngineJob& job, int process, Minibatch minibatch) const {
  const std::vector<Part>& parts = parts_[static_cast<std::size_t>(process)];
  const int arrival = arrival_of(process, rules_.wave_of(minibatch));
  for (const Part& part : parts) {
    job.send(job.add_transfer(part.push_route, part.push_bytes, arrival));
  }
  if (parts.empty()) job.arrive(arrival);
  if (!pushed_.empty()) {
    job.arrive(pushed_[static_cast<std::size_t>(rules_.wave_of(minibatch)) + 1]);
  }
}

void ServerTraffic::note_pushes(std::span<const PlanProcess> processes, EngineJob& job) {
  pushed_.assign(complete_.size(), -1);
  for (std::size_t label = 1; label < pushed_.size(); ++label) {
    pushed_[label] = job.add_signal(static_cast<int>(std::count_if(
        processes.begin(), processes.end(),
        [&](const PlanProcess& process) { return pushes(process, static_cast<Label>(label)); })));
  }
}

void ServerTraffic::pull_recorded(EngineJob& job, int process, Minibatch minibatch,
                                  double seconds) {
  const auto p = static_cast<std::size_t>(process);
  const Label label = rules_.bound_label(rules_.wave_of(minibatch));
  if (!newest_) {
    if (label > 0) job.wait(pushed_[static_cast<std::size_t>(label)], seconds);
    return;
  }
  const bool gated = front_[p] && traits(sync_).bounded && label > 0;
  int open = gated ? pushed_[static_cast<std::size_t>(label)] : -1;
  if (open < 0) job.arrive(open = job.add_signal());
  const auto asked = static_cast<std::int64_t>(job.ops.size());
  job.ask(open, 0, seconds);
  if (asks_for_[p] < 0) return;
  gates_[static_cast<std::size_t>(asks_for_[p])].push_back({process, asked, 0});
}

void ServerTraffic::pull(EngineJob& job, int process, Minibatch minibatch) {
  const auto p = static_cast<std::size_t>(process);
  const Label label = rules_.bound_label(rules_.wave_of(minibatch));
  if (newest_) return pull_newest(job, process, rules_.wave_of(minibatch));
  if (label == 0) return;  // the initial weights
  const auto l = static_cast<std::size_t>(label);
  if (front_[p] && !parts_[p].empty()) {
    job.ask(complete_[l], parts_[p].front().there, parts_[p].front().back);
  }
  job.wait(answered_[l][p] >= 0 ? answered_[l][p] : complete_[l]);
}

// Which label it is does not change what is sent.
void ServerTraffic::pull_newest(EngineJob& job, int process, Wave wave) {
  const auto p = static_cast<std::size_t>(process);
  const std::vector<Part>& parts = parts_[p];
  const double there = parts.empty() ? 0 : parts.front().there;
  const bool gated = front_[p];
  int open = -1;
  if (gated && !own_.empty()) open = arrival_of(process, wave - 1);
  if (gated && own_.empty()) open = complete_[static_cast<std::size_t>(rules_.bound_label(wave))];
  if (gated && open < 0) job.arrive(open = job.add_signal());
  const auto asked = static_cast<std::int64_t>(job.ops.size());
  if (gated) job.ask(open, there, parts.empty() ? 0 : parts.front().back);
  if (!parts.empty()) {
    const int answer = job.add_signal(static_cast<int>(parts.size()));
    for (const Part& part : parts) {
      job.send(job.add_transfer(part.pull_route, part.pull_bytes, answer));
    }
    job.wait(answer);
  } else {
    job.compute(0);  // for the mark
  }
  if (asks_for_[p] < 0) return;
  gates_[static_cast<std::size_t>(asks_for_[p])].push_back({process, asked, there});
}

}  // namespace hetpipe
