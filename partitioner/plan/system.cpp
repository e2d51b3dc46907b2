// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/system.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/optimizer_rule.h"

namespace hetpipe {
namespace {

std::string words(const std::vector<std::string>& names) { return join(names, " or "); }

// Ensures that check_plan or check_request has passed.
template <class Rows>
auto rule_named(const Rows& rows, const std::string& name) {
  const auto* const row = find_named(rows, name);
  ensure(row != nullptr, "a rule that was checked");
  return row->rule;
}

}  // namespace

const std::vector<System>& systems() {
  using S = ScheduleRule;
  using W = WeightRule;
  using Y = SyncRule;
  using P = PlannerRule;
  static const std::vector<System> kSystems{
      {"hetpipe", S::continuous_1f1b, W::stash, Y::wsp, P::hetpipe},
      {"spectrain", S::continuous_1f1b, W::predicted, Y::all_reduce, P::search},
      {"xpipe", S::xpipe, W::bellwether, Y::all_reduce, P::search},
      {"dapple", S::dapple_pa, W::one_version, Y::all_reduce, P::dapple},
      {"timeprest", S::nf1b, W::recomputed, Y::all_reduce, P::search},
      {"gpipe", S::gpipe, W::one_version, Y::all_reduce, P::search},
      {"pipedream-flush", S::flush_1f1b, W::one_version, Y::all_reduce, P::search},
      {"zero-bubble", S::zb_h1, W::one_version, Y::all_reduce, P::search},
      {"pipedream", S::continuous_1f1b, W::stash, Y::all_reduce, P::pipedream},
      {"pipedream-2bw", S::continuous_1f1b, W::two_versions, Y::all_reduce, P::pipedream},
      {"vanilla", S::continuous_1f1b, W::newest, Y::all_reduce, P::pipedream},
      {"data-parallel", S::flush_1f1b, W::one_version, Y::all_reduce, P::data_parallel},
      {"ssp", S::continuous_1f1b, W::one_version, Y::wsp, P::data_parallel},
      {"asp", S::continuous_1f1b, W::one_version, Y::asp, P::data_parallel},
  };
  return kSystems;
}

std::vector<std::string> system_names() {
  std::vector<std::string> names;
  for (const System& system : systems()) names.push_back(system.name);
  return names;
}

const System& system_named(const std::string& name) {
  for (const System& system : systems()) {
    if (system.name == name) return system;
  }
  throw UserError("", unknown("system", name, system_names()) +
                          ". Use one of these: " + join(system_names(), ", ") + ".");
}

System composition(const Plan& plan) {
  System system = system_named(plan.system);
  if (!plan.schedule.empty()) system.schedule = rule_named(kScheduleRules, plan.schedule);
  if (!plan.weights.empty()) system.weights = rule_named(kWeightRules, plan.weights);
  if (!plan.sync.empty()) system.sync = rule_named(kSyncRules, plan.sync);
  return system;
}

bool usually_damps(const System& system) { return !traits(system.weights).predicts(); }

std::string usual_optimizer(const System& system) {
  return usually_damps(system) ? "adam" : "sgd-momentum";
}

std::string usual_scale(const System& system, const std::string& optimizer) {
  if (traits(system.sync).rounds || traits(system.sync).steps) return "mean";
  const bool damps = usually_damps(system) && optimizer_named(optimizer).usually_damps;
  return damps ? "root" : PlanServer{}.scale;
}

std::string optimizer_of_stages(const System& system, const std::string& optimizer) {
  return traits(system.sync).steps ? "sgd" : optimizer;
}

Updates updates_of(const System& system, const std::string& optimizer) {
  if (traits(system.sync).steps) return Updates::plain;
  if (optimizer_named(optimizer).orthogonal) return Updates::orthogonal;
  const bool usual = usually_damps(system) && optimizer == usual_optimizer(system);
  return usual ? Updates::damped : Updates::plain;
}

Updates updates_of(const Plan& plan) { return updates_of(composition(plan), plan.optimizer); }

int usual_clock_distance(const System& system) { return traits(system.sync).rounds ? 1 : 0; }

std::string usual_pull(const System& system, int clock_distance) {
  return traits(system.sync).rounds ? "bound" : PlanServer::usual_pull(clock_distance);
}

double usual_outer_momentum(int clock_distance) {
  return clock_distance == 0 ? kOuterMomentum : 0.5;
}

std::string why_senseless(const System& system) {
  const ScheduleTraits& schedule = traits(system.schedule);
  const WeightTraits& weights = traits(system.weights);
  const std::string both =
      format("weights '%s' under schedule '%s' ", std::string(weights.name).c_str(),
             std::string(schedule.name).c_str());
  if (schedule.has_flush && !weights.one_version) {
    return both + "(a flush leaves one version to choose from)";
  }
  if (traits(system.sync).steps && weights.predicts()) {
    return format(
        "weights '%s' under sync '%s' (predictions go along the state of an optimizer, "
        "which the servers have)",
        std::string(weights.name).c_str(), std::string(to_string(system.sync)).c_str());
  }
  const auto by_minibatch = [](const ScheduleTraits& row) {
    return row.backward == BackwardForm::by_minibatch;
  };
  if (by_minibatch(schedule) != weights.of_minibatch_backward) {
    const auto fresh = [](const WeightTraits& row) { return row.of_minibatch_backward; };
    return both + "(" + words(names_where(kScheduleRules, by_minibatch)) +
           " and the newest weights in B, " + words(names_where(kWeightRules, fresh)) +
           ", belong together)";
  }
  if (weights.shares_predictions() && !schedule.overlaps_micro_batches()) {
    const auto overlaps = [](const ScheduleTraits& row) { return row.overlaps_micro_batches(); };
    return both + "(only " + words(names_where(kScheduleRules, overlaps)) +
           " has micro-batches of one minibatch that could share a prediction)";
  }
  return "";
}

std::string why_senseless(const Plan& plan) {
  const System system = composition(plan);
  const std::string why = why_senseless(system);
  if (!why.empty()) return why;
  const bool piped = std::any_of(plan.virtual_workers.begin(), plan.virtual_workers.end(),
                                 [](const auto& vw) { return vw.stages.size() > 1; });
  if (needs_one_in_flight(system) && piped && plan.in_flight > 1) {
    return format(
        "weights '%s' with %d minibatches in flight under schedule '%s' (an "
        "update comes between F and B of the next)",
        std::string(to_string(system.weights)).c_str(), plan.in_flight,
        std::string(to_string(system.schedule)).c_str());
  }
  return "";
}

bool needs_one_in_flight(const System& system) {
  return traits(system.weights).one_version && !traits(system.schedule).has_flush;
}

bool trains_as_serial(const System& system) {
  return !traits(system.weights).mixes_versions && traits(system.sync).bounded;
}

std::vector<std::string> sensible_weights(const System& parts) {
  return names_where(kWeightRules, [&](const WeightTraits& row) {
    System system = parts;
    system.weights = row.rule;
    return !needs_one_in_flight(system) && why_senseless(system).empty();
  });
}

}  // namespace hetpipe
