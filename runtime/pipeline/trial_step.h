// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe {

// Samples of the passes that will come, of every size one; by chunk.
struct StepSizes {
  std::vector<std::set<std::int64_t>> train, evaluate;
};

// One step of every size, enqueued: forward and backward passes through the stages, passes of an
// evaluation, and what the optimizer prepares. So whatever a device does when it computes something
// first has been done: plans are found and measured, code is loaded, memory has grown.
//
// Samples, labels and what other stages would have sent are zeros, and the results are thrown away:
// weights are read alone, statistics and gradients are scratch, random draws have no state. Of
// masked language models the reference device would refuse such labels, as it counts them; GPUs do
// not.
//
// `weights`: of the chunks, one after another.
void enqueue_trial_step(const std::vector<Stage*>& chunks, const StepSizes& sizes,
                        const float* weights, Optimizer& optimizer, bool split_backward);

// Bytes of the labels of so many samples, with those that they are mixed with.
std::size_t most_bytes_of_labels(const Model& model, std::int64_t samples);

}  // namespace hetpipe
