// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/pipeline_bound.h"

namespace hetpipe {
namespace {

std::int64_t factor(const MemoryBound& bound, std::int64_t StageFootprint::*member,
                    std::int64_t of = 1) {
  ChunkMemory one;
  one.footprint.*member = of;
  return bound.bytes(one);
}

MemoryBound of_one_micro_batch(PipelineShape shape, StageId stage) {
  shape.micro_batches = 1;
  return memory_bound(shape, stage);
}

}  // namespace

PipelineBound::PipelineBound(const PipelineShape& shape, StageId stage)
    : micro_batches_(shape.micro_batches) {
  const MemoryBound bound = of_one_micro_batch(shape, stage);
  late_halves_ = bound.late_halves();
  two_of_parameters_ = factor(bound, &StageFootprint::parameters, 2) - late_halves_;
  stash_ = micro_batches_ * factor(bound, &StageFootprint::stash);
  const int waiting = bound.messages_ahead().gradients;
  received_ = micro_batches_ * (factor(bound, &StageFootprint::received) + waiting);
  returned_ = factor(bound, &StageFootprint::received_once) - waiting;
  sent_ = micro_batches_ * factor(bound, &StageFootprint::sent);
  working_ = factor(bound, &StageFootprint::working);
  uses_ = factor(bound, &StageFootprint::uses);
  foreign_ = factor(bound, &StageFootprint::foreign);
  tied_sent_ = factor(bound, &StageFootprint::tied_sent);
  tied_received_ = factor(bound, &StageFootprint::tied_received);
  samples_ahead_ = factor(bound, &StageFootprint::samples_ahead);
}

}  // namespace hetpipe
