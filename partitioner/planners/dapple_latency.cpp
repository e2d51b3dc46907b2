// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_latency.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {

DappleLatency dapple_latency(std::span<const PipelineBlock> blocks, int micro_batches) {
  ensure(!blocks.empty() && micro_batches > 0, "a pipeline has a stage and a micro-batch");
  const auto both = [&](std::size_t s) { return blocks[s].forward + blocks[s].backward; };
  const double repeats = micro_batches - 1;
  std::size_t pivot = blocks.size() - 1;
  double between = 0;
  for (std::size_t s = pivot; s-- > 0;) {
    if (repeats * both(s) > repeats * both(pivot) + between) {
      pivot = s;
      between = 0;
    } else {
      between += both(s);
    }
  }
  DappleLatency result;
  result.pivot = static_cast<int>(pivot);
  result.steady = repeats * both(pivot);
  // From the pivot outwards; the pivot's own backward counts on either side.
  double after = 0;
  for (std::size_t s = pivot + 1; s-- > 0;) {
    result.warm_up += blocks[s].forward;
    after += blocks[s].backward;
    result.ending = std::max(result.ending, blocks[s].all_reduce + after);
  }
  double before = blocks[pivot].backward;
  for (std::size_t s = pivot + 1; s < blocks.size(); ++s) {
    before += blocks[s].backward;
    result.ending = std::max(result.ending, blocks[s].all_reduce - before);
  }
  return result;
}

}  // namespace hetpipe
