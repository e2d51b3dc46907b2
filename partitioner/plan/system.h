// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/schedule_rule.h"
#include "partitioner/plan/sync_rule.h"
#include "partitioner/plan/weight_rule.h"

// A system is four choices, and here is one row of one table: nothing else in the tree knows a
// system's name. A plan may replace any of the first three (keys schedule, weights, sync). What a
// choice means stands in a table of its own (schedule_rule.h, weight_rule.h, sync_rule.h), and
// traits(choice) is its row there: whoever asks about a choice asks a column.
namespace hetpipe {

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

// The row of a name; UserError that names the nearest one.
const System& system_named(const std::string& name);

// What a plan runs: its system's row with the plan's own choices in place. Ensures that check_plan
// has passed.
System composition(const Plan& plan);

// Whether steps are damped unless an option says otherwise, by the optimizers that can
// (OptimizerTraits::usually_damps): wherever weights are not predicted. Predictions go along
// the state of an optimizer, which is not damped (docs/training.md, "Damped steps").
bool usually_damps(const System& system);

// adam where steps are damped, else sgd-momentum.
std::string usual_optimizer(const System& system);
// Where virtual workers push damped steps, their sum over the root of their number, else the sum.
// Rounds, and gradients for the servers: the mean (docs/outer.md, docs/server-step.md).
std::string usual_scale(const System& system, const std::string& optimizer);
// What runs at the stages: plain SGD where the servers have the plan's optimizer.
std::string optimizer_of_stages(const System& system, const std::string& optimizer);
// What a stage's updates are, as far as no option of a training says otherwise.
Updates updates_of(const System& system, const std::string& optimizer);
Updates updates_of(const Plan& plan);
// Rounds travel while the next one is computed, and every label means the same rounds in every run.
int usual_clock_distance(const System& system);
std::string usual_pull(const System& system, int clock_distance);
// Of the servers' steps: less where rounds arrive late, which then oscillate (docs/outer.md).
double usual_outer_momentum(int clock_distance);

// Why these choices make no sense together, or an empty text: a flush leaves one version of the
// weights; a B of a whole minibatch runs with the newest ones; a prediction is shared where
// micro-batches overlap.
std::string why_senseless(const System& system);
std::vector<std::string> sensible_weights(const System& parts);  // with the others of these

// One version of the weights, and a pipeline that is never flushed: updates come between F and B
// unless one minibatch is in flight, or there is one stage.
bool needs_one_in_flight(const System& system);

// Whether it trains as serial training would, up to bounded staleness: no backward pass mixes
// versions of the weights.
bool trains_as_serial(const System& system);

// The same of a plan, whose pipelines may also be too deep for one version of the weights: where
// several minibatches are in flight, one's update comes between F and B of the next.
std::string why_senseless(const Plan& plan);

}  // namespace hetpipe
