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
    const Lines lines = this->lines(of, first, end, received, sent, tied);
    const Footprints::Backwards backwards = of.backwards(first, end, lines.stash);
    return lines.apart + with_workspace(lines, std::max(backwards.working, backwards.gradients));
  }
  // Whether these are no more than so many: mostly what is known quickly says so.
  bool fits(const Footprints& of, int first, int end, std::int64_t received, std::int64_t sent,
            const Tied& tied, std::int64_t available) const {
    const Lines lines = this->lines(of, first, end, received, sent, tied);
    if (lines.apart > available) return false;
    const std::int64_t at_most = of.works_on_at_most(first, end, lines.stash);
    if (lines.apart + lines.unpacked + lines.late + working_ * at_most <= available) return true;
    const Footprints::Backwards backwards = of.backwards(first, end, lines.stash);
    return lines.apart + with_workspace(lines, std::max(backwards.working, backwards.gradients)) <=
           available;
  }

 private:
  struct Lines {
    std::int64_t stash = 0;     // of one micro-batch
    std::int64_t apart = 0;     // what does not depend on what backwards work on
    std::int64_t unpacked = 0;  // beside that, in as far as they work on less
    std::int64_t late = 0;
  };
  Lines lines(const Footprints& of, int first, int end, std::int64_t received, std::int64_t sent,
              const Tied& tied) const {
    const std::int64_t stash = of.stash(first, end);
    const std::int64_t returned = returned_ * received;
    const std::int64_t parameters = of.parameters(first, end);
    const std::int64_t tied_bytes =
        of.tied().empty() ? 0
                          : uses_ * of.uses(first, end) + foreign_ * of.foreign(first, end) +
                                tied_sent_ * tied.sent + tied_received_ * tied.received;
    return {.stash = stash,
            .apart = two_of_parameters_ * parameters / 2 + stash_ * stash + received_ * received +
                     returned + sent_ * sent + tied_bytes +
                     samples_ahead_ * of.samples_ahead(first, end),
            .unpacked = micro_batches_ > 1
                            ? std::max<std::int64_t>(0, micro_batches_ * sent - returned)
                            : 0,
            .late = std::max<std::int64_t>(
                0, late_halves_ * parameters / 2 - micro_batches_ * (stash + sent) - received)};
  }
  std::int64_t with_workspace(const Lines& lines, std::int64_t works_on) const {
    const std::int64_t workspace = working_ * works_on;
    return workspace + std::max<std::int64_t>(0, lines.unpacked - workspace) +
           std::max<std::int64_t>(0, lines.late - workspace);
  }

  // Bytes charged for one byte of each; of the moving ones per micro-batch.
  std::int64_t two_of_parameters_;  // of two: some copies are halves
  std::int64_t stash_, received_, returned_, sent_, working_;
  std::int64_t uses_, foreign_, tied_sent_, tied_received_, samples_ahead_;
  std::int64_t micro_batches_;
  std::int64_t late_halves_;  // of the parameters, that come between two passes
};

}  // namespace hetpipe
