// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream_memory.h"

#include <algorithm>
#include <limits>

#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/replicated.h"

namespace hetpipe {

PipedreamMemory::PipedreamMemory(const PlanRequest& request, const Plan& plan, int batch,
                                 int in_flight)
    : rule_(memory_rule(plan)),
      samples_(batch / plan.micro_batches),
      late_(traits(rule_.schedule).backward == BackwardForm::split),
      request_(request),
      tables_(tables_of(request)),
      passes_(passes_of_action(plan, rule_)),
      updates_(updates_of(plan)) {
  for (const int kind : kinds_present(request.cluster)) {
    kinds_.push_back({kind, request.cluster.kinds[static_cast<std::size_t>(kind)].for_plans(), {}});
  }
  ScheduleRequest schedule;
  schedule.stages = in_flight;
  schedule.micro_batches = plan.micro_batches;
  schedule.in_flight = plan.in_flight;
  const auto& counts = tables_->held().of(rule_.schedule, schedule);
  for (int behind = 0; behind < in_flight; ++behind) {
    needs_.emplace_back(rule_, counts, in_flight - 1 - behind);
  }
}

const Footprints& PipedreamMemory::footprints(Kind& kind, int replicas) {
  const auto at = static_cast<std::size_t>(replicas);
  if (at >= kind.tables.size()) kind.tables.resize(at + 1);
  if (kind.tables[at] == nullptr) {
    kind.tables[at] =
        tables_->of(request_.profile, request_.cluster.kinds[static_cast<std::size_t>(kind.index)],
                    std::max(1, (samples_ + replicas - 1) / replicas), passes_, updates_);
  }
  return kind.tables[at]->footprints;
}

int PipedreamMemory::most_behind(int first, int end, int replicas) {
  const int deepest = static_cast<int>(needs_.size()) - 1;
  int most = std::numeric_limits<int>::max();
  for (Kind& kind : kinds_) {
    const Footprints& of = footprints(kind, replicas);
    ChunkMemory chunk{of.least(first, end)};
    if (late_) of.add_late(chunk.footprint, first, end);
    const auto fits = [&](int behind) {
      return needs_[static_cast<std::size_t>(behind)].bytes(chunk, replicas) <= kind.memory;
    };
    if (fits(std::min(deepest, most))) continue;
    int behind = -1;  // what fits; the more stages are behind, the more is held
    for (int none = std::min(deepest, most); behind + 1 < none;) {
      const int middle = behind + (none - behind) / 2;
      (fits(middle) ? behind : none) = middle;
    }
    most = behind;
    if (most < 0) break;
  }
  return most;
}

}  // namespace hetpipe
