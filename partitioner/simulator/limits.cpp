// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/limits.h"

#include "base/error.h"
#include "base/text.h"
#include "partitioner/simulator/plan_workers.h"

namespace hetpipe {
namespace {

// Of an action: schedule, operations, messages, times (benchmarks/results has the measured bytes);
// and of an event that is kept.
constexpr double kBytesPerAction = 70;
constexpr double kBytesPerEvent = 100;

// Of one minibatch of every virtual worker: F, B, W and R, for each of F and B a message that comes
// and one that goes, an update and a push.
double actions_per_minibatch(const Plan& plan, const System& system) {
  const BackwardForm backward = traits(system.schedule).backward;
  const double forwards = passes_of(system.schedule, plan.micro_batches).actions;
  const double backwards = backward == BackwardForm::by_minibatch ? 1 : forwards;
  double actions = 0;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      double each = forwards + backwards + 2;
      if (vw.stages.size() > 1) each += 2 * (forwards + backwards);
      if (backward == BackwardForm::split) each += backwards;
      if (recomputes(stage, system.weights)) each += forwards;
      actions += each * static_cast<double>(stage.devices.size());
    }
  }
  return actions;
}

}  // namespace

double bytes_to_play(const Plan& plan, const System& system, const SimulationRequest& request,
                     int minibatches) {
  return actions_per_minibatch(plan, system) * minibatches *
         (kBytesPerAction + (request.keep_events ? kBytesPerEvent : 0));
}

void check_size(const Plan& plan, const SimulationRequest& request, int minibatches, double bytes) {
  if (bytes <= kMostSimulationBytes) return;
  const std::string why = format(
      "%d minibatches of %d micro-batches for each of %zu virtual workers cannot be "
      "simulated (that would take about %s of memory; %s is the most). ",
      minibatches, plan.micro_batches, plan.virtual_workers.size(), format_bytes(bytes).c_str(),
      format_bytes(kMostSimulationBytes).c_str());
  if (request.minibatches) throw UserError("--minibatches", why + "Ask for fewer.");
  throw UserError("", why + "Give the plan fewer micro_batches, or ask for fewer --minibatches.");
}

void check_takes_time(double seconds) {
  if (seconds > 0) return;
  throw UserError("",
                  "the plan takes no time (forward, backward and update of its layers are 0 s in "
                  "the profile, and no message takes any). Measure the layers.");
}

}  // namespace hetpipe
