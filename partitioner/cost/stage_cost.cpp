// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/stage_cost.h"

#include <algorithm>

#include "partitioner/profile/cut.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// The bytes of some layers' outputs for one micro-batch of `samples`, as `kind` lays them out.
double bytes_of(const Profile& profile, const DeviceKind& kind, int samples,
                const std::vector<int>& layers) {
  if (samples == 0) return 0;
  const LayerCosts costs = costs_on(profile, kind, samples);
  double bytes = 0;
  for (const int l : layers)
    bytes += static_cast<double>(costs.output_bytes[static_cast<std::size_t>(l)]);
  return bytes;
}

// The longest that a replica of `to` waits for its samples from the replicas of `from`: each sends
// its part of them.
double transfer_seconds(const Cluster& cluster, const PlanStage& from, const PlanStage& to,
                        int micro_batch, double bytes_of_micro_batch) {
  const std::vector<int> sent = samples_of_replicas(from, micro_batch);
  const std::vector<int> received = samples_of_replicas(to, micro_batch);
  double longest = 0;
  for (std::size_t r = 0; r < to.devices.size(); ++r) {
    const double wanted = bytes_of_micro_batch * received[r] / micro_batch;
    double seconds = 0;
    for (std::size_t f = 0; f < from.devices.size(); ++f) {
      const double part = wanted * sent[f] / micro_batch;
      if (part > 0) {
        seconds =
            std::max(seconds, cluster.link(from.devices[f], to.devices[r]).transfer_seconds(part));
      }
    }
    longest = std::max(longest, seconds);
  }
  return longest;
}

}  // namespace

std::vector<StageCost> stage_costs(const Plan& plan, const Cluster& cluster, const Profile& profile,
                                   VirtualWorkerId vw) {
  const auto& stages = plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages;
  const int micro_batch = plan.minibatch_of(vw) / plan.micro_batches;
  std::vector<StageCost> result;
  std::vector<int> ends;
  for (const PlanStage& stage : stages) {
    StageCost cost;
    const std::vector<int> samples = samples_of_replicas(stage, micro_batch);
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      if (samples[r] == 0) continue;
      const LayerCosts costs = costs_on(profile, cluster.kind_of(stage.devices[r]), samples[r]);
      double forward = 0;
      double backward = 0;
      for (int l = stage.first_layer; l < stage.end_layer; ++l) {
        forward += costs.forward[static_cast<std::size_t>(l)];
        backward += costs.backward[static_cast<std::size_t>(l)];
      }
      if (stage.recompute) backward += forward;
      if (forward + backward > cost.compute()) {
        cost.forward = forward;
        cost.backward = backward;
      }
    }
    cost.forward *= plan.micro_batches;
    cost.backward *= plan.micro_batches;
    result.push_back(cost);
    ends.push_back(stage.end_layer);
  }
  for (const Transfer& transfer : transfers(profile, ends)) {
    const auto from = static_cast<std::size_t>(transfer.from_stage);
    const auto to = static_cast<std::size_t>(transfer.to_stage);
    const double bytes = bytes_of(profile, cluster.kind_of(stages[from].devices.front()),
                                  micro_batch, transfer.layers);
    result[to].receive_activations +=
        plan.micro_batches *
        transfer_seconds(cluster, stages[from], stages[to], micro_batch, bytes);
    result[from].receive_gradients +=
        plan.micro_batches *
        transfer_seconds(cluster, stages[to], stages[from], micro_batch, bytes);
  }
  // Replica r of the later of two stages deals with replica r modulo those of the earlier.
  const auto seconds_of = [&](const TiedTransfer& way) {
    const auto& from = stages[static_cast<std::size_t>(way.from_stage)].devices;
    const auto& to = stages[static_cast<std::size_t>(way.to_stage)].devices;
    double longest = 0;
    for (std::size_t r = 0; r < std::max(from.size(), to.size()); ++r) {
      const Link link = cluster.link(from[r % from.size()], to[r % to.size()]);
      longest = std::max(longest, link.transfer_seconds(static_cast<double>(way.bytes)));
    }
    return longest;
  };
  const TiedTransfers tied = tied_transfers(tied_weights(profile), ends);
  for (const TiedTransfer& way : tied.weights) {
    result[static_cast<std::size_t>(way.to_stage)].receive_activations += seconds_of(way);
  }
  for (const TiedTransfer& way : tied.gradients) {
    result[static_cast<std::size_t>(way.to_stage)].receive_gradients += seconds_of(way);
  }
  return result;
}

}  // namespace hetpipe
