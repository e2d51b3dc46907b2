// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/megatron_stages.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "base/index.h"
#include "partitioner/cost/megatron_ledger.h"
#include "partitioner/simulator/network.h"

namespace hetpipe {
namespace {

// Two layers with one weight.
struct Tie {
  int owner = 0;
  int user = 0;
};

std::vector<Tie> stated_ties(const Profile& profile) {
  std::vector<Tie> found;
  for (std::size_t user = 0; user < profile.layers.size(); ++user) {
    for (std::size_t owner = 0; owner < profile.layers.size(); ++owner) {
      if (!profile.layers[user].shares.empty() &&
          profile.layers[user].shares == profile.layers[owner].name) {
        found.push_back({static_cast<int>(owner), static_cast<int>(user)});
      }
    }
  }
  return found;
}

std::vector<Tie> ties(const Profile& profile) {
  std::vector<Tie> found = stated_ties(profile);
  const int last = static_cast<int>(profile.layers.size()) - 1;
  if (found.empty() && last > 0) found.push_back({0, last});
  return found;
}

// The layers [first, end) that recomputing runs again: all, but where the profile says which layers
// share a weight, those between them. They are a GPT's embedding and output layer, and this runtime
// checkpoints the transformer layers alone.
struct Checkpointed {
  int first = 0;
  int end = 0;
};
Checkpointed checkpointed(const Profile& profile) {
  const std::vector<Tie> found = stated_ties(profile);
  if (found.empty()) return {0, static_cast<int>(profile.layers.size())};
  return {found.back().owner + 1, found.back().user};
}

// Of each layer the last one that reads it; -1 where none does.
std::vector<int> last_readers(const Profile& profile) {
  std::vector<int> last(profile.layers.size(), -1);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    for (const int input : profile.layers[l].inputs) {
      last[static_cast<std::size_t>(input)] = static_cast<int>(l);
    }
  }
  return last;
}

// The part of a parameter's four bytes that its gradient has where it is all-reduced: in fp16
// training DeepSpeed reduces fp16 (communication_data_type), in bf16 the fp32 gradients that its
// optimizer for bf16 adds up.
double gradient_share(const Plan& plan, const Profile& profile, const DeviceKind& kind) {
  return megatron_precision(plan, profile, kind) == Precision::fp16 ? 0.5 : 1;
}

// The parameters of a stage's layers; what two of them share counts once.
double parameter_bytes(const Profile& profile, const PlanStage& stage) {
  double bytes = 0;
  std::set<std::string> held;
  for (int l = stage.first_layer; l < stage.end_layer; ++l) {
    const ProfileLayer& layer = at(profile.layers, l);
    const bool again = !layer.shares.empty() && held.contains(layer.shares);
    if (!again) bytes += static_cast<double>(layer.parameter_bytes);
    held.insert(layer.name);
  }
  return bytes;
}

MegatronStage stage_of(const Plan& plan, const Cluster& cluster, const Profile& profile,
                       const Checkpointed& checkpoints, const std::vector<int>& last_reader, int vw,
                       int k) {
  const PlanStage& here = at(at(plan.virtual_workers, vw).stages, k);
  const DeviceKind& kind = cluster.kind_of(here.devices.front());
  const LayerCosts costs =
      costs_on(profile, kind, plan.minibatch_of(VirtualWorkerId{vw}) / plan.micro_batches);
  MegatronStage stage;
  stage.vw = vw;
  stage.k = k;
  stage.device = here.devices.front();
  stage.gpus = kind.gpus;
  for (int l = here.first_layer; l < here.end_layer; ++l) {
    stage.forward += at(costs.forward, l);
    stage.backward += at(costs.backward, l);
    if (!costs.update_is_step) stage.update += at(costs.update, l);
    if (here.recompute && checkpoints.first <= l && l < checkpoints.end) {
      stage.backward += at(costs.forward, l);
    }
  }
  if (costs.update_is_step) {
    stage.update = std::accumulate(costs.update.begin(), costs.update.end(), 0.0);
  }
  stage.gradient_bytes =
      kind.gpus * parameter_bytes(profile, here) * gradient_share(plan, profile, kind);
  // Everything that later stages read goes through the next one.
  for (int l = 0; l < here.end_layer; ++l) {
    if (at(last_reader, l) >= here.end_layer) {
      stage.output_bytes += static_cast<double>(at(costs.output_bytes, l));
    }
  }
  return stage;
}

}  // namespace

std::vector<MegatronStage> megatron_stages(const Plan& plan, const Cluster& cluster,
                                           const Profile& profile) {
  std::vector<MegatronStage> stages;
  const Checkpointed checkpoints = checkpointed(profile);
  const std::vector<int> last_reader = last_readers(profile);
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      stages.push_back(stage_of(plan, cluster, profile, checkpoints, last_reader,
                                static_cast<int>(vw), static_cast<int>(k)));
    }
  }
  return stages;
}

std::vector<TiedStages> tied_stages(const Plan& plan, const Cluster& cluster,
                                    const Profile& profile) {
  const auto& stages = plan.virtual_workers.front().stages;
  const auto stage_of = [&](int layer) {
    int k = 0;
    while (at(stages, k).end_layer <= layer) ++k;
    return k;
  };
  std::vector<TiedStages> tied;
  for (const Tie& tie : ties(profile)) {
    const int a = stage_of(tie.owner);
    const int b = stage_of(tie.user);
    if (a == b) continue;
    const auto bytes = static_cast<double>(std::min(at(profile.layers, tie.owner).parameter_bytes,
                                                    at(profile.layers, tie.user).parameter_bytes));
    const DeviceKind& kind = cluster.kind_of(at(stages, a).devices.front());
    if (bytes > 0) tied.push_back({a, b, bytes * gradient_share(plan, profile, kind)});
  }
  return tied;
}

double gradient_bytes_between_nodes(std::span<const MegatronStage> stages,
                                    std::span<const TiedStages> tied) {
  const auto replicas = static_cast<std::size_t>(stages.back().vw) + 1;
  const std::size_t depth = stages.size() / replicas;
  double bytes = 0;
  for (std::size_t k = 0; k < depth; ++k) {
    std::set<std::string> nodes;
    double largest = 0;
    for (std::size_t vw = 0; vw < replicas; ++vw) {
      const MegatronStage& stage = stages[vw * depth + k];
      nodes.insert(stage.device.node);
      largest = std::max(largest, stage.gradient_bytes);
    }
    if (nodes.size() < 2) continue;
    bytes += static_cast<double>(nodes.size()) * ring_share(replicas) * largest;
  }
  for (std::size_t vw = 0; vw < replicas; ++vw) {
    for (const TiedStages& tie : tied) {
      const MegatronStage& a = stages[vw * depth + static_cast<std::size_t>(tie.a)];
      const MegatronStage& b = stages[vw * depth + static_cast<std::size_t>(tie.b)];
      if (a.device.node != b.device.node) bytes += 2 * tie.bytes * a.gpus;
    }
  }
  return bytes;
}

}  // namespace hetpipe
