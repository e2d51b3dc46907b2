// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/largest_minibatch.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

constexpr int kMostSamples = 1 << 24;  // of a minibatch

struct Lack {
  int virtual_worker = 0;
  int stage = 0;
  StageNeed need;
};

// Of all stages the one that lacks most, or that has least to spare.
Lack worst_of(const PlanRequest& request, const Plan& plan) {
  std::optional<Lack> worst;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      Lack here{static_cast<int>(vw), static_cast<int>(k), {}};
      here.need = fullest_replica(plan, request.cluster, request.profile,
                                  VirtualWorkerId{here.virtual_worker}, StageId{here.stage});
      if (!worst || here.need.missing() > worst->need.missing()) worst = std::move(here);
    }
  }
  ensure(worst.has_value(), "a plan has stages");
  return *worst;
}

}  // namespace

Plan with_minibatch(const PlanRequest& request, Plan plan, int minibatch) {
  plan.minibatch = minibatch;
  share_by_speed(request, plan);
  return plan;
}

LargestMinibatch largest_minibatch(const PlanRequest& request, const Plan& plan) {
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    ensure(!vw.minibatch, "one minibatch for all virtual workers");
  }
  const int step = plan.micro_batches;
  const auto with = [&](int steps) { return with_minibatch(request, plan, steps * step); };
  const auto fits = [&](int steps) { return worst_of(request, with(steps)).need.missing() <= 0; };
  int fit = plan.minibatch / step;
  ensure(fits(fit), "the plan fits");
  int too_many = 2 * fit;
  while (fits(too_many)) {
    fit = too_many;
    too_many *= 2;
    if (too_many > kMostSamples / step) {
      throw UserError("--largest",
                      format("minibatch: even %d samples fit (memory does not limit it). Leave it "
                             "out.",
                             fit * step));
    }
  }
  while (too_many - fit > 1) {
    const int middle = fit + (too_many - fit) / 2;
    (fits(middle) ? fit : too_many) = middle;
  }
  const Plan largest = with(fit);
  const Lack lack = worst_of(request, with(too_many));
  LargestMinibatch result;
  result.minibatch = fit * step;
  result.throughput = simulate(largest, request.cluster, request.profile).throughput;
  result.worth = request.worth(largest, result.throughput);
  result.next = too_many * step;
  result.virtual_worker = lack.virtual_worker;
  result.stage = lack.stage;
  result.device = lack.need.device;
  result.missing_bytes = lack.need.missing();
  return result;
}

}  // namespace hetpipe
