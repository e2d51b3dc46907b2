// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/lowered_schedules.h"

namespace hetpipe {
std::shared_ptr<const Schedule> LoweredSchedules::of(ScheduleRule rule,
                                                     const ScheduleRequest& request,
                                                     const Lowering& how) {
  Key key{rule,
          request.stages,
          request.chunks,
          request.micro_batches,
          request.in_flight,
          request.most_held.value_or(0),
          request.first,
          request.end,
          how.sync,
          how.in_flight,
          how.round,
          how.recompute};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  auto lowered = std::make_shared<const Schedule>(lower(generate(rule, request), how));
  std::size_t actions = 0;
  for (const StageActions& stage : *lowered) actions += stage.size();
  if (actions_ + actions > most_actions_) {
    known_.clear();
    actions_ = 0;
  }
  actions_ += actions;
  known_.emplace(std::move(key), lowered);
  return lowered;
}

}  // namespace hetpipe
