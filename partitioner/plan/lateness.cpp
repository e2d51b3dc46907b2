// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/lateness.h"

#include <algorithm>

#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/schedule/generate.h"

namespace hetpipe {
namespace {

// A virtual worker sees its own updates of these waves: the others drift apart from it, which costs
// less than updates that all of them miss.
constexpr double kOfBound = 0.125;
// What weights that look ahead along the last step leave of a wave that is under way.
constexpr double kOfStep = 0.375;

// Fitted to the trainings of benchmarks/results/2026-11-28-samples-to-target.md, in samples of
// which kCriticalBatch in a sum double a training with plain steps.
constexpr UnseenCost kDamped{.serial = 1, .summed = 0.2, .late = 0.8};
constexpr UnseenCost kPlain{.serial = 2, .summed = 1, .late = 3};
// Predictions make up for most of what late updates cost plain steps; the steps stay plain.
constexpr UnseenCost kPredicted{.serial = 2, .summed = 1, .late = 0.7};

// Minibatches of a virtual worker that do not see each other's updates, itself among them.
double minibatches_under_way(const Plan& plan, const System& system,
                             const PlanVirtualWorker& worker) {
  const ScheduleTraits& schedule = traits(system.schedule);
  ScheduleRequest request;
  request.stages = std::max(1, static_cast<int>(worker.stages.size()));
  request.micro_batches = plan.micro_batches;
  request.in_flight = plan.in_flight;
  if (traits(system.weights).recomputes) {
    // B comes this many minibatches after the newest that is done (docs/schedules.md, nf1b).
    const int slots = request.micro_batches + 1;
    return (request.stages + slots - 1) / slots;
  }
  return schedule.under_way(request);
}

}  // namespace

UnseenSamples unseen_samples(const Plan& plan) {
  const System system = composition(plan);
  const auto round = static_cast<double>(plan.global_batch());
  if (!traits(system.sync).waves() || !plan.server) {
    double all = 0;
    for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
      all += plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) *
             minibatches_under_way(plan, system, plan.virtual_workers[i]);
    }
    return {.summed = round, .late = all - round};
  }
  double deepest = 1;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    deepest = std::max(deepest, minibatches_under_way(plan, system, worker));
  }
  const double own = round / static_cast<double>(plan.virtual_workers.size());
  if (traits(system.sync).steps) {
    const double wave = round * static_cast<double>(plan.wave_length());
    const bool simulated = plan.predicted && plan.predicted->label_age;
    const double age = simulated ? *plan.predicted->label_age : plan.server->clock_distance;
    return {.summed = wave, .late = wave * (kOfStep + age)};
  }
  int distance = plan.server->pulls_newest() ? 0 : plan.server->clock_distance;
  if (traits(system.sync).rounds) distance = std::max(distance, 1);
  return {.summed = own,
          .late = own * (deepest - 1) +
                  (round - own) * (1 + 1.5 * (deepest - 1) +
                                   kOfBound * distance * static_cast<double>(plan.wave_length()))};
}

UnseenCost unseen_cost(const System& system, const std::string& optimizer) {
  if (traits(system.weights).predicts()) return kPredicted;
  const OptimizerTraits& row = optimizer_named(optimizer);
  return row.usually_damps ? kDamped : kPlain;
}

double samples_factor(const Plan& plan, double critical_batch) {
  const UnseenCost cost = unseen_cost(composition(plan), plan.optimizer);
  const UnseenSamples unseen = unseen_samples(plan);
  return cost.serial *
         (1 + (unseen.summed * cost.summed + unseen.late * cost.late) / critical_batch);
}

double least_samples_factor(const System& system, const std::string& optimizer,
                            std::size_t virtual_workers, int minibatch, double critical_batch) {
  const UnseenCost cost = unseen_cost(system, optimizer);
  const SyncTraits& sync = traits(system.sync);
  const double others = sync.waves() && !sync.steps ? cost.late : cost.summed;
  const double counted = cost.summed + static_cast<double>(virtual_workers - 1) * others;
  return cost.serial * (1 + counted * minibatch / critical_batch);
}

}  // namespace hetpipe
