// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

// With P the stage's parameter bytes, n = min(stages - stage, micro-batches) the micro-batches
// between their F and their B (1F1B's warm-up):
//   weights P, gradients P, optimizer 2 P   fp32, Adam's two moments (the runtime's default)
//   flat gradients         min(P, bucket): to be all-reduced they are copied into one buffer of at
//                          most 500 million floats (the engine's MEMORY_OPT_ALLREDUCE_SIZE)
//   activations n * stash
//   messages     n * received (gathered from the parts that the group's GPUs receive, kept for B)
//                + received + sent: the gradients of both, one micro-batch's
//   workspace    the largest stash of a layer: its backward makes gradients of what was kept
//   process      CUDA context, NCCL, kernels
// Lines of 0 bytes are left out.
MemoryLedger megatron_stage_ledger(const StageFootprint& micro_batch, std::int64_t largest_stash,
                                   int stages, StageId stage, int micro_batches,
                                   std::int64_t process_bytes = kMegatronProcessBytes);

// The same for a stage of a plan.
MemoryLedger megatron_stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                                   VirtualWorkerId vw, StageId stage,
                                   std::int64_t process_bytes = kMegatronProcessBytes);

}  // namespace hetpipe
