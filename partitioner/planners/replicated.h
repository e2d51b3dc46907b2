// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partitioner/planners/pipedream_states.h"
#include "partitioner/planners/planner.h"

// What the planners of replicated stages (PipeDream, DAPPLE, data parallelism) share: how they see
// cluster and profile, and how a plan of theirs is finished.
namespace hetpipe {

// The layers that a planner places. Sources that PipeDream's format calls "Input" stand for reading
// samples: the published optimizers of PipeDream and DAPPLE leave them out of the costs, and so do
// these; they belong to the stage of the layer behind them.
struct PlacedLayers {
  std::vector<int> layers;               // as indices of the profile, in order
  std::vector<std::vector<int>> inputs;  // of each, as indices of `layers`
  int layer_count = 0;                   // of the profile

  int size() const { return static_cast<int>(layers.size()); }
  // One past the last layer, in the profile, of a stage that ends before placed layer `end`.
  int end_layer(int end) const;
};
PlacedLayers placed_layers(const Profile& profile);

// Of each node that has any. UserError when none has.
std::vector<std::vector<DeviceName>> devices_by_node(const Cluster& cluster);

int kind_index(const Cluster& cluster, const DeviceName& device);  // of Cluster::kinds

// Kinds that the cluster's nodes have, as indices of Cluster::kinds, ascending.
std::vector<int> kinds_present(const Cluster& cluster);

// Costs on every kind that is present, of a call with `samples`; [kind], empty where absent.
std::vector<std::shared_ptr<const LayerCosts>> costs_by_kind(const PlanRequest& request,
                                                             int samples);

// The slowest link between two devices of one node, and of two nodes: `between` rules that lower
// them count as soon as they apply to any pair.
struct SlowestLinks {
  Link within;
  Link across;
};
SlowestLinks slowest_links(const Cluster& cluster);

// `samples` in proportion to speed, as whole numbers, at least 1 each: no split has a smaller
// largest share / speed. Empty where they are all equal. Ensures that there are enough samples.
std::vector<int> proportional_shares(int samples, std::span<const double> speeds);

// How a micro-batch is split over the replicas of any stage: in proportion to each device's speed
// on the stage's layers.
class StageShares {
 public:
  StageShares(const PlanRequest& request, int samples);
  // Of the layers [first, end) on devices of these kinds (of Cluster::kinds). Empty where all are
  // equal.
  std::vector<int> of(int first, int end, std::span<const int> kinds) const;

 private:
  int samples_;
  std::vector<std::shared_ptr<const LayerCosts>> costs_;  // [kind]
};

// Fills the shares of each stage; equal ones, where those are asked for, stay open.
void share_by_speed(const PlanRequest& request, Plan& plan);

// The first device that has less memory than its stage's ledger needs: one sentence, without what
// to do. Empty: all fit.
std::string memory_shortage(const PlanRequest& request, const Plan& plan);

// Fills the predictions for each stage of a virtual worker: seconds per micro-batch of its slowest
// replica, and memory.
void predict_stages(const PlanRequest& request, Plan& plan, VirtualWorkerId id);

// Fills what the planner predicts: each stage's seconds per micro-batch and memory, the planner's
// own objective, the simulated throughput.
void finish(const PlanRequest& request, Plan& plan, double objective);

// UserError if several virtual workers are requested of a planner that forms one.
void refuse_virtual_workers(const PlanRequest& request, const char* planner);

}  // namespace hetpipe
