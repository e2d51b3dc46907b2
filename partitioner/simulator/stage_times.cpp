// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/stage_times.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

const LayerCosts& CostTable::on(const DeviceKind& kind, int batch) {
  const auto [at, added] = costs_.try_emplace({&kind, batch});
  if (added) at->second = tables_->costs(profile_, kind, batch, updates_);
  return *at->second;
}

WorkerTimes worker_times(const Plan& plan, VirtualWorkerId vw, CostTable& costs) {
  const int micro_batch = plan.minibatch_of(vw) / plan.micro_batches;
  WorkerTimes times;
  for (const PlanStage& stage : plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages) {
    const std::vector<int> samples = samples_of_replicas(stage, micro_batch);
    if (*std::min_element(samples.begin(), samples.end()) < 1) {
      throw UserError(
          "",
          format("virtual worker %d, stage %zu: a micro-batch of %d samples cannot be split "
                 "over %zu devices (each needs at least one). Use fewer devices or micro_batches, "
                 "or a larger minibatch.",
                 vw.value, times.size(), micro_batch, stage.devices.size()));
    }
    std::vector<ReplicaTimes> replicas;
    int first_sample = 0;
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      ReplicaTimes t;
      t.kind = &costs.cluster().kind_of(stage.devices[r]);
      t.first_sample = first_sample;
      t.samples = samples[r];
      first_sample += t.samples;
      const LayerCosts& layer = costs.on(*t.kind, t.samples);
      for (auto l = static_cast<std::size_t>(stage.first_layer);
           l < static_cast<std::size_t>(stage.end_layer); ++l) {
        t.forward += layer.forward[l];
        t.backward += layer.backward[l];
        t.weight_gradient += layer.weight_gradient[l];
        t.update += layer.update[l];
      }
      replicas.push_back(t);
    }
    times.push_back(std::move(replicas));
  }
  return times;
}

}  // namespace hetpipe
