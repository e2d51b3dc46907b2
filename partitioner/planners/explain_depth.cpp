// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
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
  limit.relative_throughput = answer.relative_throughput;
  limit.why_not = answer.why_not;
  if (!answer.relative) return limit;
  const PlanRequest& request = asked.request;
  limit.samples = samples_factor(deeper, request.critical_batch) /
                      samples_factor(asked.plan, request.critical_batch) -
                  1;
  if (limit.relative_throughput < kGrows) {
    limit.limited_by = "throughput";
  } else if (*limit.relative < kGrows) {
    limit.limited_by = "accuracy";
  }
  return limit;
}

// What it gives, whatever memory it needs; absent: the schedule cannot do it.
std::optional<double> gain(const ExplainedPlan& asked, const Plan& deeper) {
  const PlanRequest& request = asked.request;
  try {
    check_plan(deeper, "plan", &request.cluster, static_cast<int>(request.profile->layers.size()));
    return asked.relative(
        deeper, simulate(deeper, request.cluster, request.profile, kOnlySpeed).throughput);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

Plan in_flight(const ExplainedPlan& asked, int number) {
  Plan deeper = asked.plan;
  deeper.in_flight = number;
  return deeper;
}

// What a schedule holds rises in steps, and so does its speed: where one more gives nothing, twice
// as many may.
DepthLimit more_in_flight(const ExplainedPlan& asked) {
  const int now = asked.plan.in_flight;
  const auto with = [&](int number) {
    return judged(asked, limit_of("Nm", now, number), in_flight(asked, number));
  };
  const DepthLimit one_more = with(now + 1);
  if (one_more.limited_by != "throughput" || now == 1) return one_more;
  if (gain(asked, in_flight(asked, 2 * now)).value_or(0) < kGrows) return one_more;
  return with(2 * now);
}

// Nothing, with the reason in `limit`: they cannot be halved.
std::optional<Plan> with_halves(const ExplainedPlan& asked, DepthLimit& limit) {
  Plan finer = asked.plan;
  finer.micro_batches *= 2;
  for (std::size_t vw = 0; vw < asked.plan.virtual_workers.size(); ++vw) {
    const int minibatch = asked.plan.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
    if (minibatch % finer.micro_batches == 0) continue;
    limit.why_not = format("a minibatch of %d does not divide into them", minibatch);
    return std::nullopt;
  }
  for (PlanVirtualWorker& vw : finer.virtual_workers) {
    for (PlanStage& stage : vw.stages) {
      const bool odd = std::any_of(stage.shares.begin(), stage.shares.end(),
                                   [](int share) { return share % 2 != 0; });
      if (odd) {
        limit.why_not = "a replica's share does not halve";
        return std::nullopt;
      }
      for (int& share : stage.shares) share /= 2;
    }
  }
  return finer;
}

DepthLimit more_micro_batches(const ExplainedPlan& asked) {
  const int now = asked.plan.micro_batches;
  DepthLimit limit = limit_of("micro-batches", now, 2 * now);
  const std::optional<Plan> finer = with_halves(asked, limit);
  return finer ? judged(asked, limit, *finer) : limit;
}

}  // namespace

DepthLimit limit_of_depth(const ExplainedPlan& asked) {
  return traits(asked.parts.schedule).has_flush ? more_micro_batches(asked) : more_in_flight(asked);
}

std::optional<double> gain_of_depth(const ExplainedPlan& asked) {
  if (traits(asked.parts.schedule).has_flush) {
    DepthLimit limit;
    const std::optional<Plan> finer = with_halves(asked, limit);
    return finer ? gain(asked, *finer) : std::nullopt;
  }
  const int now = asked.plan.in_flight;
  const std::optional<double> one_more = gain(asked, in_flight(asked, now + 1));
  const std::optional<double> twice = gain(asked, in_flight(asked, 2 * now));
  return std::max(one_more, twice);  // nothing is less than any
}

}  // namespace hetpipe
