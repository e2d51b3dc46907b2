// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/megatron_constants.h"
#include "partitioner/simulator/simulate.h"

// Megatron-DeepSpeed's pipeline engine: 1F1B with a flush, as that runtime plays it. For plans with
// runtime = "megatron-deepspeed", to compare with runs measured under it (docs/measured.md).
//
// * Order of a stage's instructions: megatron_order below.
// * A receive blocks the stage. A send blocks until what is left fits a buffer
//   (megatron_constants.h); messages of one directed pair go one after the other, the network takes
//   them also before the receiver waits.
// * Where a device is a group of GPUs, each sends its part of the tensor, so a message crosses the
//   network once. The pass that uses it first gathers the whole inside the node, (gpus - 1) / gpus
//   of the bytes at the gather_bandwidth of the cluster's intra_node link (Link::gather).
// * After its last B a stage all-reduces tied weights with the other stage that holds them, in
//   fp32 (fp16 where that is the precision), each GPU its own part; then comes a barrier over all
//   ranks, then all stages all-reduce their gradients at once, in rings over the virtual workers;
//   then the optimizer.
// * Weights are tied where the profile says so (`shares`); where it says nothing, the last layer
//   uses the first one's, as this runtime's GPT does by default. What is shared is at
//   most the smaller layer.
// * A stage's optimizer step is the sum of its layers' `update`; where the profile records one
// whole
//   step with every layer (update_is_step), as this runtime's profiler does, every stage pays it.
// * The all-reduces of tensor parallelism are inside measured layer times, and estimates add them
//   (group_all_reduce_bytes).
// * A stage that recomputes runs its forward pass again before each backward pass, with these
//   all-reduces. Where the profile says which layers share a weight, as a GPT's embedding and
//   output layer do, only what lies between them: this runtime checkpoints the transformer layers
//   alone.
namespace hetpipe {

// The instructions of stage `stage`: F, B, sends (S) and receives (V) of one minibatch. The work is
// laid out in slots: F of micro-batch m in slot stage + 2 m, B in slot 2 stages - 1 - stage + 2 m.
// A forward slot sends the gradient of the slot before, then receives; a backward slot receives the
// gradient *before* it sends the activation of the slot before. Two stages, two micro-batches:
//   stage 0: F0 S0 F0.1 V0 S0.1 B0 V0.1 B0.1
//   stage 1: V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1
// (S0.1 comes between V0 and B0: stage 1 is idle until B0's gradient has arrived.)
StageActions megatron_order(int stages, StageId stage, int micro_batches, Minibatch minibatch = 0);

// UserError where the plan is none that this runtime could run: another schedule than 1F1B with a
// flush, parameter servers, several devices in a stage (its replicas are virtual workers), virtual
// workers that are partitioned differently.
Simulation simulate_megatron(const Plan& plan, const Cluster& cluster, const Profile& profile,
                             const SimulationRequest& request = {},
                             const MegatronConstants& constants = {});

}  // namespace hetpipe
