// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan.h"

#include <set>

#include "partitioner/plan/plan_check.h"

namespace hetpipe {

std::vector<int> samples_of_replicas(const PlanStage& stage, int micro_batch) {
  if (!stage.shares.empty()) return stage.shares;
  const int replicas = static_cast<int>(stage.devices.size());
  std::vector<int> samples(stage.devices.size(), micro_batch / replicas);
  for (int r = 0; r < micro_batch % replicas; ++r) ++samples[static_cast<std::size_t>(r)];
  return samples;
}

std::vector<std::string> server_scales() { return {"sum", "mean", "root"}; }

int Plan::minibatch_of(VirtualWorkerId vw) const {
  return virtual_workers[static_cast<std::size_t>(vw.value)].minibatch.value_or(minibatch);
}

std::int64_t Plan::global_batch() const {
  std::int64_t samples = 0;
  for (std::size_t vw = 0; vw < virtual_workers.size(); ++vw) {
    samples += minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
  }
  return samples;
}

int Plan::worker_ranks() const {
  std::set<DeviceName> devices;  // one of an interleaved schedule has several stages
  for (const PlanVirtualWorker& vw : virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      devices.insert(stage.devices.begin(), stage.devices.end());
    }
  }
  return static_cast<int>(devices.size());
}

int Plan::server_ranks() const {
  return server && !server->hosted ? static_cast<int>(server->nodes.size()) : 0;
}

void check_plan(const Plan& plan, const std::string& file, const Cluster* cluster,
                int layer_count) {
  Problems problems;
  check_plan(plan, {file, {}, 0}, cluster, layer_count, problems);
  problems.throw_if_any();
}

}  // namespace hetpipe
