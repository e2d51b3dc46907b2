// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/data/prefetch.h"
#include "runtime/data/sample_split.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/stage.h"

// What goes into a stage from the data set, and what comes out of its loss.
namespace hetpipe {

// Samples `span` of a batch (counted inside it), as far as the stage reads them.
void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass);

// Of a forward pass through the stage that holds the loss.
struct Losses {
  double sum = 0;  // over samples, in their order
  std::int64_t correct = 0;
};
Losses read_losses(const Stage& stage, const Pass& pass, RankService& service);

}  // namespace hetpipe
