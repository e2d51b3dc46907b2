// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ids.h"
#include "partitioner/cost/footprints.h"
#include "partitioner/cost/memory_bound.h"

namespace hetpipe {

// MemoryBound for stages of a pipeline that runs HetPipe's way, to the byte, for a search that asks
// millions of times: of one micro-batch per minibatch its total is linear in the footprint, so the
// factors are asked once. What more micro-batches add is not linear; it grows with every byte all
// the same.
class PipelineBound {
 public:
  PipelineBound(const PipelineShape& shape, StageId stage);

  // Of the layers [first, end), which receive and send so many bytes per micro-batch, and of tied
  // weights so many per minibatch.
  struct Tied {
    std::int64_t sent = 0;
    std::int64_t received = 0;
  };
  std::int64_t bytes(const Footprints& of, int first, int end, std::int64_t received,
                     std::int64_t sent, const Tied& tied = {0, 0}) const {
    const std::int64_t stash = of.stash(first, end);
    const Footprints::Backwards backwards = of.backwards(first, end, stash);
    const std::int64_t workspace = working_ * std::max(backwards.working, backwards.gradients);
    const std::int64_t returned = returned_ * received;
    const std::int64_t unpacked =
        micro_batches_ > 1 ? std::max<std::int64_t>(0, micro_batches_ * sent - workspace - returned)
                           : 0;
    const std::int64_t parameters = of.parameters(first, end);
    const std::int64_t passing = workspace + micro_batches_ * (stash + sent) + received;
    const std::int64_t late = std::max<std::int64_t>(0, late_halves_ * parameters / 2 - passing);
    const std::int64_t tied_bytes =
        of.tied().empty() ? 0
                          : uses_ * of.uses(first, end) + foreign_ * of.foreign(first, end) +
                                tied_sent_ * tied.sent + tied_received_ * tied.received;
    return two_of_parameters_ * parameters / 2 + late + stash_ * stash + received_ * received +
           returned + sent_ * sent + unpacked + workspace + tied_bytes +
           samples_ahead_ * of.samples_ahead(first, end);
  }

 private:
  // Bytes charged for one byte of each; of the moving ones per micro-batch.
  std::int64_t two_of_parameters_;  // of two: some copies are halves
  std::int64_t stash_, received_, returned_, sent_, working_;
  std::int64_t uses_, foreign_, tied_sent_, tied_received_, samples_ahead_;
  std::int64_t micro_batches_;
  std::int64_t late_halves_;  // of the parameters, that come between two passes
};

}  // namespace hetpipe
