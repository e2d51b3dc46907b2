// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/plan_waits.h"

#include <algorithm>

#include "base/index.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/cut.h"
#include "partitioner/simulator/all_reduce.h"
#include "partitioner/simulator/plan_workers.h"

namespace hetpipe {
namespace {

const std::vector<RecordedPlace> kNobody;

// Samples of a micro-batch, [first, end), of each replica.
std::vector<std::pair<int, int>> spans_of(const PlanStage& stage, int micro_batch) {
  std::vector<std::pair<int, int>> spans;
  int first = 0;
  for (const int samples : samples_of_replicas(stage, micro_batch)) {
    spans.emplace_back(first, first + samples);
    first += samples;
  }
  return spans;
}

}  // namespace

PlanWaits::PlanWaits(const Plan& plan, const Profile& profile) {
  const System system = composition(plan);
  std::vector<PlanProcess> processes;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    add_processes(plan, id, system.schedule, processes);
    positions_.push_back(pipeline_of(plan.virtual_workers[vw], system.schedule).positions);
    add_senders(plan, profile, id.value);
  }
  for (const PlanProcess& process : processes) {
    devices_.push_back({process.virtual_worker, process.position, process.replica});
  }
  const ReduceScope scope =
      traits(system.sync).waves() ? ReduceScope::virtual_worker : ReduceScope::everybody;
  const auto shared = hetpipe::sharers(profile, processes, scope);
  for (std::size_t p = 0; p < shared.size(); ++p) {
    for (const int other : shared[p]) sharers_[devices_[p]].push_back(devices_[at(other)]);
  }
}

void PlanWaits::add_senders(const Plan& plan, const Profile& profile, int virtual_worker) {
  const PlanVirtualWorker& worker = plan.virtual_workers[at(virtual_worker)];
  const int micro_batch = plan.minibatch_of(VirtualWorkerId{virtual_worker}) / plan.micro_batches;
  std::vector<int> ends;
  for (const PlanStage& stage : worker.stages) ends.push_back(stage.end_layer);
  for (const Transfer& transfer : transfers(profile, ends)) {
    const auto from = spans_of(worker.stages[at(transfer.from_stage)], micro_batch);
    const auto to = spans_of(worker.stages[at(transfer.to_stage)], micro_batch);
    for (std::size_t a = 0; a < from.size(); ++a) {
      for (std::size_t b = 0; b < to.size(); ++b) {
        if (std::min(from[a].second, to[b].second) <= std::max(from[a].first, to[b].first)) {
          continue;
        }
        const RecordedPlace one{virtual_worker, transfer.from_stage, static_cast<int>(a)};
        const RecordedPlace other{virtual_worker, transfer.to_stage, static_cast<int>(b)};
        senders_[{other, Payload::activations}].push_back(one);
        senders_[{one, Payload::gradients}].push_back(other);
      }
    }
  }
}

const std::vector<RecordedPlace>& PlanWaits::senders(const RecordedPlace& to,
                                                     Payload payload) const {
  const auto found = senders_.find({to, payload});
  return found == senders_.end() ? kNobody : found->second;
}

const std::vector<RecordedPlace>& PlanWaits::sharers(const RecordedPlace& device) const {
  const auto found = sharers_.find(device);
  return found == sharers_.end() ? kNobody : found->second;
}

}  // namespace hetpipe
