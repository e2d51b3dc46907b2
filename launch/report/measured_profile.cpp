// SPDX-License-Identifier: Apache-2.0
#include "launch/report/measured_profile.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/stage_times.h"

namespace hetpipe {
namespace {

// Measured by predicted, of sums of seconds.
struct TimeFactor {
  double measured = 0;
  double predicted = 0;
  void add(double took, double expected) {
    if (expected <= 0 || took <= 0) return;
    measured += took;
    predicted += expected;
  }
  double value(double otherwise) const { return predicted > 0 ? measured / predicted : otherwise; }
};

struct KindFactors {
  TimeFactor forward;
  TimeFactor backward;
  TimeFactor update;
  std::vector<TimeFactor> layer_forward;
  std::vector<TimeFactor> layer_backward;
  int batch = 0;
};

void scale(std::vector<double>& seconds, const std::vector<TimeFactor>& layers, double otherwise) {
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] *= layers[i].value(otherwise);
}

Measurement scaled(const Profile& profile, const DeviceKind& kind, const KindFactors& by) {
  const LayerCosts costs = costs_on(profile, kind, by.batch);
  Measurement m;
  m.device = kind.name;
  m.batch = by.batch;
  m.forward = costs.forward;
  m.backward = costs.backward;
  m.weight_gradient = costs.weight_gradient;
  m.output_bytes = costs.output_bytes;
  m.stash_bytes = costs.stash_bytes;
  m.scratch_bytes = costs.scratch_bytes;
  scale(m.forward, by.layer_forward, by.forward.value(1));
  scale(m.backward, by.layer_backward, by.backward.value(1));
  scale(m.weight_gradient, by.layer_backward, by.backward.value(1));
  m.update = costs.update;
  m.damped_update = costs_on(profile, kind, by.batch, Updates::damped).update;
  m.orthogonal_update = costs_on(profile, kind, by.batch, Updates::orthogonal).update;
  for (std::vector<double>* updates : {&m.update, &m.damped_update, &m.orthogonal_update}) {
    for (double& seconds : *updates) seconds *= by.update.value(1);
  }
  m.update_is_step = false;
  return m;
}

}  // namespace

std::optional<StageTimes> stage_times_of(const DeviceTime& time, const Plan& plan,
                                         const Cluster& cluster, const Profile& profile) {
  if (time.minibatches <= 0) return std::nullopt;
  CostTable costs(cluster, profile, updates_of(plan));
  const WorkerTimes all = worker_times(plan, VirtualWorkerId{time.virtual_worker}, costs);
  const PlanVirtualWorker& vw = plan.virtual_workers[at(time.virtual_worker)];
  // Of an interleaved schedule: all stages of the device.
  const int positions = pipeline_of(vw, composition(plan).schedule).positions;
  const double micro = plan.micro_batches;
  const auto n = static_cast<double>(time.minibatches);
  StageTimes times;
  for (std::size_t k = at(time.stage); k < vw.stages.size(); k += at(positions)) {
    if (at(time.replica) >= all[k].size()) return std::nullopt;
    const ReplicaTimes& of = all[k][at(time.replica)];
    const bool twice = recomputes(vw.stages[k], composition(plan).weights);
    times.forward += micro * of.forward * (twice ? 2 : 1);
    times.backward += micro * of.backward;
    times.update += of.update;
  }
  times.measured_forward = time.forward / n;
  times.measured_backward = time.backward / n;
  times.measured_update = time.update / n;
  return times;
}

Profile measured_profile(const std::vector<DeviceTime>& times, const Plan& plan,
                         const Cluster& cluster, const Profile& profile) {
  std::map<std::string, KindFactors> kinds;
  for (const DeviceTime& time : times) {
    const std::optional<StageTimes> of = stage_times_of(time, plan, cluster, profile);
    if (!of) continue;
    const PlanVirtualWorker& vw = plan.virtual_workers[at(time.virtual_worker)];
    const PlanStage& stage = vw.stages[at(time.stage)];
    KindFactors& kind = kinds[cluster.kind_of(stage.devices[at(time.replica)]).name];
    kind.layer_forward.resize(profile.layers.size());
    kind.layer_backward.resize(profile.layers.size());
    const int micro = plan.minibatch_of(VirtualWorkerId{time.virtual_worker}) / plan.micro_batches;
    kind.batch = samples_of_replicas(stage, micro)[at(time.replica)];
    kind.forward.add(of->measured_forward, of->forward);
    kind.backward.add(of->measured_backward, of->backward);
    kind.update.add(of->measured_update, of->update);
    const int positions = pipeline_of(vw, composition(plan).schedule).positions;
    for (std::size_t k = at(time.stage); k < vw.stages.size(); k += at(positions)) {
      for (int l = vw.stages[k].first_layer; l < vw.stages[k].end_layer; ++l) {
        kind.layer_forward[at(l)].add(of->measured_forward, of->forward);
        kind.layer_backward[at(l)].add(of->measured_backward, of->backward);
      }
    }
  }
  Profile measured = profile;
  for (const auto& of_kind : kinds) {
    const std::string& name = of_kind.first;
    const KindFactors& factors = of_kind.second;
    const auto kind = std::find_if(cluster.kinds.begin(), cluster.kinds.end(),
                                   [&](const DeviceKind& k) { return k.name == name; });
    Measurement own = scaled(profile, *kind, factors);
    std::erase_if(measured.measurements,
                  [&](const Measurement& m) { return same_device_type(m.device, name); });
    measured.measurements.push_back(std::move(own));
  }
  return measured;
}

}  // namespace hetpipe
