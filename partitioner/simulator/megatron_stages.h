// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// What the stages of a plan take and hold under Megatron-DeepSpeed's pipeline engine (megatron.h).
namespace hetpipe {

// What one stage of one virtual worker does and costs.
struct MegatronStage {
  int vw = 0;
  int k = 0;
  DeviceName device;
  int gpus = 1;
  double forward = 0;   // s, of one micro-batch
  double backward = 0;  // with the forward passes that it repeats, where the stage recomputes
  double update = 0;
  double gradient_bytes = 0;  // of all GPUs of the device, as they are all-reduced
  double output_bytes = 0;    // to the next stage, of one micro-batch
};

// Virtual worker after virtual worker.
std::vector<MegatronStage> megatron_stages(const Plan& plan, const Cluster& cluster,
                                           const Profile& profile);

// Two stages of every virtual worker that hold one weight.
struct TiedStages {
  int a = 0;
  int b = 0;
  double bytes = 0;  // of its gradient, of each GPU
};
std::vector<TiedStages> tied_stages(const Plan& plan, const Cluster& cluster,
                                    const Profile& profile);

// Of the rings over the virtual workers, which are cut alike, and of the tied weights; per
// iteration.
double gradient_bytes_between_nodes(std::span<const MegatronStage> stages,
                                    std::span<const TiedStages> tied);

}  // namespace hetpipe
