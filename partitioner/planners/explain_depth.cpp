// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "partitioner/planners/explain_parts.h"

namespace hetpipe {
namespace {

constexpr double kGrows = 0.01;  // less than this is not worth another minibatch in flight

DepthLimit limit_of(const char* what, int now, int tried) {
  DepthLimit limit;
  limit.what = what;
  limit.now = now;
  limit.tried = tried;
  return limit;
}

DepthLimit judged(const ExplainedPlan& asked, DepthLimit limit, const Plan& deeper) {
  if (const auto over = worst_overflow(asked, deeper)) {
    limit.limited_by = "memory";
    limit.virtual_worker = over->virtual_worker;
    limit.stage = over->stage;
    limit.device = over->need.device;
    limit.missing_bytes = over->need.missing();
    return limit;
  }
  const Alternative answer = tried(asked, "", deeper);
  limit.relative = answer.relative;
  limit.why_not = answer.why_not;
  if (!answer.relative) return limit;
  const PlanRequest& request = asked.request;
  limit.samples = samples_factor(deeper, request.critical_batch) /
                      samples_factor(asked.plan, request.critical_batch) -
                  1;
  const double worth = request.worth(deeper, 1 + *answer.relative) / request.worth(asked.plan, 1);
  if (*answer.relative < kGrows) {
    limit.limited_by = "throughput";
  } else if (worth < 1 + kGrows) {
    limit.limited_by = "accuracy";
  }
  return limit;
}

DepthLimit more_in_flight(const ExplainedPlan& asked) {
  Plan deeper = asked.plan;
  ++deeper.in_flight;
  return judged(asked, limit_of("Nm", asked.plan.in_flight, deeper.in_flight), deeper);
}

DepthLimit more_micro_batches(const ExplainedPlan& asked) {
  Plan finer = asked.plan;
  finer.micro_batches *= 2;
  DepthLimit limit = limit_of("micro-batches", asked.plan.micro_batches, finer.micro_batches);
  for (std::size_t vw = 0; vw < asked.plan.virtual_workers.size(); ++vw) {
    const int minibatch = asked.plan.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
    if (minibatch % finer.micro_batches == 0) continue;
    limit.why_not = format("a minibatch of %d does not divide into them", minibatch);
    return limit;
  }
  for (PlanVirtualWorker& vw : finer.virtual_workers) {
    for (PlanStage& stage : vw.stages) {
      const bool odd = std::any_of(stage.shares.begin(), stage.shares.end(),
                                   [](int share) { return share % 2 != 0; });
      if (odd) {
        limit.why_not = "a replica's share does not halve";
        return limit;
      }
      for (int& share : stage.shares) share /= 2;
    }
  }
  return judged(asked, limit, finer);
}

}  // namespace

DepthLimit limit_of_depth(const ExplainedPlan& asked) {
  return traits(asked.parts.schedule).has_flush ? more_micro_batches(asked) : more_in_flight(asked);
}

}  // namespace hetpipe
