// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/schedule/generate.h"

// A system is four choices, and here is one row of one table: nothing else in the tree knows a
// system's name. A plan may replace any of the first three (keys schedule, weights, sync).
namespace hetpipe {

// Which weights F and B of a (micro-)batch use.
enum class WeightRule {
  one_version,    // nothing changes between a minibatch's F and B
  stash,          // B uses the version of its F, kept until then
  vertical_sync,  // as stash, and one version through all stages
  two_versions,   // the newest and the one before (2BW)
  newest,         // B uses the current weights, whatever F used
  predicted,      // F (and B again) with weights predicted along the update, s steps ahead
  bellwether,     // as predicted, once per minibatch: its first micro-batch's prediction serves all
  recomputed,     // B runs its forward again with the newest weights
  mixed,          // activations of the old weights, Jacobians of the newest ones
};

// How virtual workers, and the replicas of a stage, are synchronised.
enum class SyncRule {
  all_reduce,  // before every update
  wsp,         // waves through parameter servers, at most D apart (arXiv 2005.14038)
  asp,         // the same, unbounded
};

// The planner when no policy is given.
enum class PlannerRule { hetpipe, dapple, pipedream, search, data_parallel };

struct System {
  std::string name;
  ScheduleRule schedule = ScheduleRule::continuous_1f1b;
  WeightRule weights = WeightRule::stash;
  SyncRule sync = SyncRule::wsp;
  PlannerRule planner = PlannerRule::hetpipe;
};

const std::vector<System>& systems();
std::vector<std::string> system_names();
std::vector<std::string> weight_names();  // "one-version" "stash" ...
std::vector<std::string> sync_names();    // "all-reduce" "wsp" "asp"
std::string_view to_string(WeightRule rule);
std::string_view to_string(SyncRule rule);

// The row of a name; UserError that names the nearest one.
const System& system_named(const std::string& name);

// What a plan runs: its system's row with the plan's own choices in place. Ensures that check_plan
// has passed.
System composition(const Plan& plan);

// Why these choices make no sense together, or an empty text: a flush leaves one version of the
// weights; nf1b alone runs B with the newest ones; xpipe alone has predictions to share.
std::string why_senseless(const System& system);
std::vector<std::string> sensible_weights(ScheduleRule schedule);

// The same of a plan, whose pipelines may also be too deep for one version of the weights: where
// several minibatches are in flight, one's update comes between F and B of the next.
std::string why_senseless(const Plan& plan);

}  // namespace hetpipe
