// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/pipeline.h"

#include <algorithm>
#include <set>

namespace hetpipe {

Pipeline pipeline_of(const PlanVirtualWorker& vw, ScheduleRule rule) {
  const int stages = static_cast<int>(vw.stages.size());
  if (!traits(rule).several_chunks) return {stages, 1};
  std::set<DeviceName> devices;
  for (const PlanStage& stage : vw.stages) devices.insert(stage.devices.front());
  const int positions = static_cast<int>(devices.size());
  return {positions, stages / positions};
}

ScheduleRequest schedule_request(const Plan& plan, const PlanVirtualWorker& vw, ScheduleRule rule) {
  const Pipeline pipeline = pipeline_of(vw, rule);
  ScheduleRequest request;
  request.stages = pipeline.positions;
  request.chunks = pipeline.chunks;
  request.micro_batches = plan.micro_batches;
  request.in_flight = plan.in_flight;
  return request;
}

std::set<DeviceName> devices_of(const Plan& plan) {
  std::set<DeviceName> devices;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) {
      devices.insert(stage.devices.begin(), stage.devices.end());
    }
  }
  return devices;
}

bool replicated(const Plan& plan) {
  return std::any_of(
      plan.virtual_workers.begin(), plan.virtual_workers.end(), [](const auto& worker) {
        return std::any_of(worker.stages.begin(), worker.stages.end(),
                           [](const PlanStage& stage) { return stage.devices.size() > 1; });
      });
}

bool recomputes(const PlanStage& stage, WeightRule weights) {
  return stage.recompute || traits(weights).recomputes;
}

}  // namespace hetpipe
