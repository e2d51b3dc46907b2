// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/text.h"
#include "partitioner/planners/explain_parts.h"

namespace hetpipe {
namespace {

// The same stages on the same kinds: what is moved in one is moved in all, else the others would
// hide what it gives.
bool alike(const Cluster& cluster, const PlanVirtualWorker& a, const PlanVirtualWorker& b) {
  if (a.minibatch != b.minibatch || a.stages.size() != b.stages.size()) return false;
  for (std::size_t k = 0; k < a.stages.size(); ++k) {
    const PlanStage& x = a.stages[k];
    const PlanStage& y = b.stages[k];
    if (x.end_layer != y.end_layer || x.devices.size() != y.devices.size()) return false;
    for (std::size_t r = 0; r < x.devices.size(); ++r) {
      if (cluster.kind_of(x.devices[r]).name != cluster.kind_of(y.devices[r]).name) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::vector<Alternative> moves_from(const ExplainedPlan& asked, const Bottleneck& at) {
  std::vector<Alternative> answers;
  const auto& from = asked.plan.virtual_workers[static_cast<std::size_t>(at.virtual_worker)];
  const auto k = static_cast<std::size_t>(at.stage);
  const PlanStage& stage = from.stages[k];
  const auto& workers = asked.plan.virtual_workers;
  const auto same = std::count_if(workers.begin(), workers.end(), [&](const auto& vw) {
    return alike(asked.request.cluster, vw, from);
  });
  const std::string where =
      same > 1 ? format(", in all %d virtual workers like this one", static_cast<int>(same)) : "";
  for (const int step : {-1, 1}) {
    const int to = at.stage + step;
    if (to < 0 || to >= static_cast<int>(from.stages.size())) continue;
    const int layer = step < 0 ? stage.first_layer : stage.end_layer - 1;
    const std::string what =
        format("move layer %d (%s) from stage %d to stage %d", layer,
               asked.request.profile->layers[static_cast<std::size_t>(layer)].name.c_str(),
               at.stage, to) +
        where;
    if (stage.end_layer - stage.first_layer == 1) {
      answers.push_back({.what = what, .why_not = "it is the stage's only layer"});
      continue;
    }
    Plan moved = asked.plan;
    for (PlanVirtualWorker& vw : moved.virtual_workers) {
      if (!alike(asked.request.cluster, vw, from)) continue;
      if (step < 0) {
        ++vw.stages[k - 1].end_layer;
        ++vw.stages[k].first_layer;
      } else {
        --vw.stages[k].end_layer;
        --vw.stages[k + 1].first_layer;
      }
    }
    answers.push_back(tried(asked, what, moved));
  }
  return answers;
}

}  // namespace hetpipe
