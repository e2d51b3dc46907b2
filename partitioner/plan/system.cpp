// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/system.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::array<std::string_view, 9> kWeights{"one-version",  "stash",     "vertical-sync",
                                                   "two-versions", "newest",    "predicted",
                                                   "bellwether",   "recompute", "mixed"};
constexpr std::array<std::string_view, 3> kSyncs{"all-reduce", "wsp", "asp"};

template <class Names>
std::vector<std::string> listed(const Names& names) {
  return {names.begin(), names.end()};
}

template <class Names>
std::size_t index_of(const Names& names, const std::string& name, const char* what) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) {
    throw UserError("", unknown(what, name, listed(names)) +
                            ". Use one of these: " + join(listed(names), ", ") + ".");
  }
  return static_cast<std::size_t>(at - names.begin());
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

std::vector<std::string> weight_names() { return listed(kWeights); }
std::vector<std::string> sync_names() { return listed(kSyncs); }
std::string_view to_string(WeightRule rule) { return kWeights[static_cast<std::size_t>(rule)]; }
std::string_view to_string(SyncRule rule) { return kSyncs[static_cast<std::size_t>(rule)]; }

const System& system_named(const std::string& name) {
  const auto names = system_names();
  return systems()[index_of(names, name, "system")];
}

System composition(const Plan& plan) {
  System system = system_named(plan.system);
  if (!plan.schedule.empty()) {
    const auto rule = try_parse_schedule_rule(plan.schedule);
    ensure(rule.has_value(), "check_plan knows the schedule");
    system.schedule = *rule;
  }
  if (!plan.weights.empty()) {
    system.weights = static_cast<WeightRule>(index_of(kWeights, plan.weights, "weights"));
  }
  if (!plan.sync.empty()) {
    system.sync = static_cast<SyncRule>(index_of(kSyncs, plan.sync, "sync"));
  }
  return system;
}

std::string why_senseless(const System& system) {
  const std::string schedule{to_string(system.schedule)};
  const std::string weights{to_string(system.weights)};
  if (has_flush(system.schedule) && system.weights != WeightRule::one_version) {
    return "weights '" + weights + "' under schedule '" + schedule +
           "' (a flush leaves one version to choose from)";
  }
  const bool by_minibatch = system.schedule == ScheduleRule::nf1b;
  const bool fresh =
      system.weights == WeightRule::recomputed || system.weights == WeightRule::mixed;
  if (by_minibatch != fresh) {
    return "weights '" + weights + "' under schedule '" + schedule +
           "' (nf1b and the newest weights in B, recomputed or mixed, belong together)";
  }
  if (system.weights == WeightRule::bellwether && system.schedule != ScheduleRule::xpipe) {
    return "weights 'bellwether' under schedule '" + schedule +
           "' (only xpipe has micro-batches of one minibatch that could share a prediction)";
  }
  return "";
}

std::string why_senseless(const Plan& plan) {
  const System system = composition(plan);
  const std::string why = why_senseless(system);
  if (!why.empty()) return why;
  const bool piped = std::any_of(plan.virtual_workers.begin(), plan.virtual_workers.end(),
                                 [](const auto& vw) { return vw.stages.size() > 1; });
  if (system.weights == WeightRule::one_version && !has_flush(system.schedule) && piped &&
      plan.in_flight > 1) {
    return format(
        "weights 'one-version' with %d minibatches in flight under schedule '%s' (an "
        "update comes between F and B of the next)",
        plan.in_flight, std::string(to_string(system.schedule)).c_str());
  }
  return "";
}

}  // namespace hetpipe
