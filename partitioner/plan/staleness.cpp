// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/staleness.h"

#include <set>

#include "base/text.h"

namespace hetpipe {
namespace {

PlanStaleness of_stages(const Plan& plan, const System& system, int stages) {
  ScheduleRequest request;
  request.stages = stages;
  request.micro_batches = plan.micro_batches;
  request.in_flight = plan.in_flight;
  PlanStaleness result;
  result.stages = stages;
  if (traits(system.schedule).backward == BackwardForm::by_minibatch) {
    result.update_sequences =
        count_update_sequences(generate(system.schedule, steady_request(system.schedule, request)));
    return result;
  }
  for (const VersionDifference& of : steps_ahead(system.schedule, system.weights, request)) {
    result.forward.push_back(of.forward);
    result.backward.push_back(of.backward);
  }
  return result;
}

std::string spaced(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return join(words, " ");
}

}  // namespace

std::vector<VersionDifference> steps_ahead(ScheduleRule rule, WeightRule weights,
                                           const ScheduleRequest& request) {
  return traits(weights).steps_ahead(generate(rule, steady_request(rule, request)));
}

std::vector<PlanStaleness> plan_staleness(const Plan& plan) {
  const System system = composition(plan);
  if (traits(system.schedule).has_flush || traits(system.weights).keeps_of_forward()) return {};
  std::set<int> depths;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    if (worker.stages.size() > 1) depths.insert(static_cast<int>(worker.stages.size()));
  }
  std::vector<PlanStaleness> result;
  for (const int stages : depths) result.push_back(of_stages(plan, system, stages));
  return result;
}

std::string staleness_text(const std::vector<PlanStaleness>& staleness) {
  std::string text;
  for (const PlanStaleness& of : staleness) {
    if (of.update_sequences > 0) {
      text += format(
          "v = %d: B comes %d minibatches after the newest that is done (%d stages; 1 is "
          "no staleness)\n",
          of.update_sequences, of.update_sequences, of.stages);
    } else {
      text += format("s, updates between a pass and its minibatch's own, stages 0 to %d: F ",
                     of.stages - 1) +
              spaced(of.forward) + ", B " + spaced(of.backward) + "\n";
    }
  }
  return text;
}

}  // namespace hetpipe
