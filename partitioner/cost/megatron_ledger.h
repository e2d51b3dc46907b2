// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/precision.h"
#include "partitioner/cost/memory.h"

// Memory of a stage under Megatron-DeepSpeed's pipeline engine (plan key runtime =
// "megatron-deepspeed"), of each GPU of the stage's device.
namespace hetpipe {

// Memory of the process before the first tensor of the model: CUDA context, NCCL, loaded kernels.
// Depends on GPU and driver. The authors of the measured runs count this much for loading this
// runtime's fused kernels on theirs (eth-easl/sailor, to which they add 0.3 GB without a name); it
// is not fitted here. docs/measured.md fits it beside, leaving one run out at a time.
inline constexpr std::int64_t kMegatronProcessBytes = 4'760'000'000;

inline constexpr std::int64_t kMegatronBucketBytes = 4 * 500'000'000LL;

// What a plan says of a stage's training.
struct MegatronTraining {
  Precision precision = Precision::fp32;
  bool recompute = false;
};

// What a device computes in: as the plan says, where that leaves it open as it was measured.
Precision megatron_precision(const Plan& plan, const Profile& profile, const DeviceKind& kind);

// With P the stage's parameter bytes, n = min(stages - stage, micro-batches) the micro-batches
// between their F and their B (1F1B's warm-up):
//   weights P, gradients P, optimizer 2 P   fp32, Adam's two moments (the runtime's default); in
//                          two bytes weights P / 2, gradients P / 2 (bf16: and their fp32 sum P),
//                          optimizer 3 P: the fp32 weights, too
//   flat gradients         min(P, bucket), in fp16 half of both: to be all-reduced they are copied
//                          into one buffer of at most 500 million numbers (the engine's
//                          MEMORY_OPT_ALLREDUCE_SIZE)
//   activations n * stash; where they are recomputed one stash, of the micro-batch whose B runs, as
//                          if the whole stage were recomputed at once. What is kept of the others
//                          is what was received
//   messages     n * received (gathered from the parts that the group's GPUs receive, kept for B)
//                + received + sent: the gradients of both, one micro-batch's
//   workspace    the largest stash of a layer: its backward makes gradients of what was kept
//   process      CUDA context, NCCL, kernels
// Lines of 0 bytes are left out.
MemoryLedger megatron_stage_ledger(const StageFootprint& micro_batch, std::int64_t largest_stash,
                                   int stages, StageId stage, int micro_batches,
                                   std::int64_t process_bytes = kMegatronProcessBytes,
                                   const MegatronTraining& training = {});

// The same for a stage of a plan.
MemoryLedger megatron_stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                                   VirtualWorkerId vw, StageId stage,
                                   std::int64_t process_bytes = kMegatronProcessBytes);

}  // namespace hetpipe
