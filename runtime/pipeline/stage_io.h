// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "runtime/data/prefetch.h"
#include "runtime/data/sample_split.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/work_queue.h"

// What goes into a stage from the data set, and what comes out of its loss.
namespace hetpipe {

// Enqueues the copies of samples `span` of a batch (counted inside it), as far as the stage reads
// them, within a piece of work. Where the host does not reach the device's memory the batch is not
// read after that.
void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass, WorkQueue& ahead);

// Of a forward pass through the stage that holds the loss.
struct Losses {
  double sum = 0;  // over samples, in their order
  std::int64_t correct = 0;
};
// Enqueues their copies to the host; called when these are done, the result reads them.
std::function<Losses()> read_losses(const Stage& stage, const Pass& pass, WorkQueue& ahead);

}  // namespace hetpipe
