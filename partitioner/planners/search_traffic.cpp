// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_traffic.h"

#include <algorithm>
#include <set>

#include "base/index.h"
#include "partitioner/plan/placement.h"
#include "partitioner/planners/limits.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// From a stage's last backward pass to the first forward pass of the next minibatch, where the
// earlier stages drain and fill.
double idle_seconds(const SearchSpace& space, const WorkerPace& pace, std::size_t stage,
                    int micro_batches) {
  const ScheduleTraits& schedule = traits(space.row().parts.schedule);
  if (!schedule.has_flush || schedule.overlaps_micro_batches()) return 0;
  double sum = 0;
  for (std::size_t k = 0; k < stage; ++k) sum += pace.stages[k];
  if (schedule.backward == BackwardForm::split) sum *= kBubbleOfSplit;
  return sum / micro_batches;
}

// Every layer's gradients go around the ring of its virtual workers, which leaves each of their
// nodes once, or stays inside the only one. What passes while all its stages are idle takes no
// time.
double all_reduce_seconds(const SearchSpace& space, const Plan& plan,
                          const std::vector<WorkerPace>& paces) {
  const Cluster& cluster = space.row().request.cluster;
  const std::vector<std::int64_t> bytes = own_parameter_bytes(space.row().request.profile);
  const auto workers = static_cast<double>(plan.virtual_workers.size());
  const double rounds = 2 * (workers - 1) / workers;
  std::set<int> cuts;  // of any virtual worker: between two of them layers have the same nodes
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) cuts.insert(stage.end_layer);
  }
  std::vector<std::size_t> stage_of(plan.virtual_workers.size(), 0);
  struct Busy {
    double seconds = 0;
    double idle = kInfinity;  // of the stages, the least
  };
  std::map<std::string_view, Busy> busy;  // by node
  int first = 0;
  for (const int end : cuts) {
    std::set<std::string_view> nodes;
    double idle = kInfinity;
    for (std::size_t vw = 0; vw < stage_of.size(); ++vw) {
      const std::vector<PlanStage>& stages = plan.virtual_workers[vw].stages;
      if (stages[stage_of[vw]].end_layer <= first) ++stage_of[vw];
      nodes.insert(stages[stage_of[vw]].devices.front().node);
      idle = std::min(idle, idle_seconds(space, paces[vw], stage_of[vw], plan.micro_batches));
    }
    double sum = 0;
    for (int l = first; l < end; ++l) sum += static_cast<double>(at(bytes, l));
    const Link& link = nodes.size() > 1 ? cluster.inter_node : cluster.intra_node;
    for (const std::string_view node : nodes) {
      Busy& of = busy[node];
      of.seconds += rounds * sum / std::max(link.bandwidth, 1e-300);
      if (sum > 0) of.idle = std::min(of.idle, idle);
    }
    first = end;
  }
  double most = 0;
  for (const auto& [node, of] : busy) {
    if (of.seconds > 0) most = std::max(most, of.seconds - of.idle);
  }
  return most;
}

// The parameters of every virtual worker to the servers and back, through the nodes' interfaces
// and, inside a node, from each device by itself.
SyncSeconds server_seconds(const SearchSpace& space, const Plan& plan) {
  const PlanRequest& request = space.row().request;
  const std::vector<std::int64_t> bytes = own_parameter_bytes(request.profile);
  const std::vector<int> shard_of = shard_of_layers(plan, bytes);
  const double pushed = plan.server->halves_pushes() ? 0.5 : 1;
  SyncSeconds sync;
  std::map<std::string_view, double> pulled_out, pulled_in;
  std::vector<double> to(plan.server->nodes.size());
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    sync.pulls.emplace_back();
    for (const PlanStage& stage : worker.stages) {
      const DeviceName& device = stage.devices.front();
      double& pull = sync.pulls.back().emplace_back(0);
      std::fill(to.begin(), to.end(), 0.0);
      for (int l = stage.first_layer; l < stage.end_layer; ++l) {
        const int shard = at(shard_of, l);
        if (shard >= 0) at(to, shard) += static_cast<double>(at(bytes, l));
      }
      for (std::size_t shard = 0; shard < to.size(); ++shard) {
        if (to[shard] == 0) continue;
        const std::string& node = plan.server->nodes[shard];
        const Link link = request.cluster.link(device, DeviceName{node, -1});
        const double seconds = to[shard] / std::max(link.bandwidth, 1e-300);
        pull = std::max(pull, seconds);
        if (node == device.node) {
          sync.inside = std::max(sync.inside, seconds);
          continue;
        }
        pulled_out[node] += seconds;
        pulled_in[device.node] += seconds;
        sync.out[node] += seconds;
        sync.in[device.node] += seconds;
        sync.out[device.node] += pushed * seconds;
        sync.in[node] += pushed * seconds;
      }
    }
  }
  sync.pull = sync.inside;
  for (const auto* way : {&pulled_out, &pulled_in}) {
    for (const auto& [node, seconds] : *way) sync.pull = std::max(sync.pull, seconds);
  }
  sync.push = pushed * sync.pull;
  return sync;
}

}  // namespace

SyncSeconds sync_seconds(const SearchSpace& space, const Plan& plan,
                         const std::vector<WorkerPace>& paces) {
  if (plan.server) return server_seconds(space, plan);
  SyncSeconds sync;
  sync.push = all_reduce_seconds(space, plan, paces);
  return sync;
}

MessageSeconds message_seconds(const std::vector<WorkerPace>& paces, const Plan& plan) {
  MessageSeconds messages;
  for (std::size_t vw = 0; vw < paces.size(); ++vw) {
    const std::vector<PlanStage>& stages = plan.virtual_workers[vw].stages;
    for (std::size_t k = 0; k + 1 < stages.size(); ++k) {
      const std::string& here = stages[k].devices.front().node;
      const std::string& next = stages[k + 1].devices.front().node;
      if (here == next) continue;
      messages.out[here] += paces[vw].activations[k + 1];
      messages.in[next] += paces[vw].activations[k + 1];
      messages.out[next] += paces[vw].gradients[k];
      messages.in[here] += paces[vw].gradients[k];
    }
  }
  return messages;
}

double busiest(const std::map<std::string_view, double>& messages,
               const std::map<std::string_view, double>& sync, double wave) {
  double most = 0;
  for (const auto& [node, seconds] : messages) {
    const auto with = sync.find(node);
    most = std::max(most, seconds + (with == sync.end() ? 0 : with->second / wave));
  }
  for (const auto& [node, seconds] : sync) most = std::max(most, seconds / wave);
  return most;
}

}  // namespace hetpipe
