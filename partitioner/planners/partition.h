// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// HetPipe's partitioner: for the devices of one virtual worker, the order of the devices and the
// contiguous partition of the layers, one non-empty part per device, whose slowest part is fastest
// while every part fits its device's memory.
//
//   part time = forward + backward on the part's device
//             + receiving activations from each earlier stage + receiving gradients from each later
//             stage
//
// per minibatch; a message costs latency + bytes / bandwidth of the link between the two devices,
// and there is one per micro-batch, direction and pair of stages that a tensor connects (cut.h),
// and one per minibatch for each tied weight and gradient on its way (tied.h).
namespace hetpipe {

// An order of the devices, and for the end of each stage but the last the layers to look at: where
// a good cut is likely.
struct LikelyPartition {
  std::vector<int> order;  // indices into PartitionRequest::devices
  std::vector<std::pair<int, int>> ends;
};

class ModelTables;

struct PartitionRequest {
  std::vector<DeviceName> devices;  // of one virtual worker, in any order
  int minibatch = 1;                // samples, a multiple of micro_batches
  int micro_batches = 1;
  int in_flight = 1;  // Nm
  std::string optimizer = "sgd-momentum";
  Updates updates = Updates::plain;
  bool server = true;
  bool average = false;  // of the weights, kept by the stages themselves
  int clock_distance = 0;
  // Steps after which the search stops with the best partition so far and a bound; some seconds.
  // Counted, never timed, so that the answer is the same on every machine.
  std::int64_t work = 400'000'000;
  // Steps, if more, while there is no partition at all.
  std::int64_t first_work = 1'000'000;
  // What a second of messages counts in a part's time: less than 1 where they travel while the part
  // computes, which the paper leaves out.
  double message_weight = 1;
  // What is looked at alone, unless nothing of it fits. Nothing is proven then.
  std::optional<LikelyPartition> likely{};
  // Of models of many more layers: about so many likely cuts are searched first, then those near
  // the cuts found. Nothing is proven then, and it takes a fraction of the time. 0: all cuts.
  int likely_cuts = 0;
  bool halves_pushes = false;  // PlanServer::halves_pushes
  int round = 1;               // waves between pushes
  // Of the layers' costs, for requests about one profile. Null: none are shared.
  std::shared_ptr<ModelTables> tables{};
};

struct PartCost {
  double forward_seconds = 0;  // per minibatch, as all of these
  double backward_seconds = 0;
  double receive_activations_seconds = 0;
  double receive_gradients_seconds = 0;
  double total() const {
    return forward_seconds + backward_seconds + receive_activations_seconds +
           receive_gradients_seconds;
  }
};

struct Partition {
  std::vector<DeviceName> devices;  // of stage 0, 1, ...
  std::vector<int> ends;            // one past the last layer of each stage
  std::vector<PartCost> costs;
  std::vector<MemoryLedger> ledgers;
  double bottleneck = 0;  // s, the time of the slowest part
  // Of partition() alone: no order and cut has a smaller bottleneck than this. Equal to it (or so
  // close that only rounding differs) where `exact`.
  double bound = 0;
  bool exact = false;
};

// What the ledgers of its parts are asked with.
PipelineShape pipeline_shape(const PartitionRequest& request);

// Times and ledgers of a given order and cut: the definition that the search optimises.
Partition evaluate_partition(const Cluster& cluster, const Profile& profile,
                             const PartitionRequest& request, std::vector<DeviceName> order,
                             std::vector<int> ends);

// The same without ledgers.
Partition time_partition(const Cluster& cluster, const Profile& profile,
                         const PartitionRequest& request, std::vector<DeviceName> order,
                         std::vector<int> ends);

// The same for a virtual worker of a plan, which check_plan has passed. UserError for replicated
// stages.
Partition evaluate_plan(const Cluster& cluster, const Profile& profile, const Plan& plan,
                        VirtualWorkerId vw);

bool fits(const Cluster& cluster, const Partition& partition);

// The best one: exact, also where skip tensors cross several stages, unless the work runs out (long
// skips over many unequal devices); then the bound says how far it may be from the best. Among
// equally good bottlenecks one with a small sum of part times; the same input always gives the same
// answer. Layers with shared parameters stay in one stage (a continuous schedule has no moment at
// which to sum their gradients). UserError when nothing fits: with the ledgers of the closest
// partition and what can be done.
Partition partition(const Cluster& cluster, const Profile& profile,
                    const PartitionRequest& request);

// The same for callers that try many: nothing if none was found within the work, without the report
// of what is missing.
std::optional<Partition> try_partition(const Cluster& cluster, const Profile& profile,
                                       const PartitionRequest& request);

}  // namespace hetpipe
