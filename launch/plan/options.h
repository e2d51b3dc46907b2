// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/command/options.h"
#include "partitioner/planners/planner.h"

// The planner's options of `plan` and `train`: one set of rows for both.
namespace hetpipe {

struct PlanningOptions {
  std::optional<std::string> cluster;  // files
  std::optional<std::string> profile;
  std::optional<std::string> profile_device;  // whose times a graph.txt holds
  std::optional<int> profile_batch;           // of how many samples; absent: derived
  std::optional<std::string> system;
  std::optional<std::string> schedule;  // these three replace parts of the system's row
  std::optional<std::string> weights;
  std::optional<std::string> sync;
  std::optional<std::string> policy;
  std::optional<int> in_flight;
  std::optional<int> virtual_workers;
  std::optional<int> minibatch;
  std::optional<int> micro_batches;
  std::optional<std::string> shares;
  std::optional<std::string> precision;
  std::vector<std::string> servers;
  std::optional<std::string> placement;
  std::optional<std::string> objective;  // absent: time-to-accuracy
  std::optional<double> critical_batch;  // absent: kCriticalBatch
  // These can also be given with a finished plan, and take precedence over it (override_plan).
  std::optional<std::string> optimizer;
  std::optional<double> ema;  // absent: no average of the weights is kept
  std::optional<int> clock_distance;
  std::optional<std::string> pull;
  std::optional<std::string> scale;
  std::optional<std::string> push_precision;
  std::optional<int> round;
  std::optional<double> outer_rate;
  std::optional<double> outer_momentum;
};

// Whether the rows are used alone or with --plan, whose values are then the defaults.
enum class PlanGiven { never, possibly };

// The rows --profile-device and --profile-batch, for the commands that read a profile.
Option profile_device_option(PlanningOptions& options);
Option profile_batch_option(PlanningOptions& options);

// The profile of the options, which may be a PipeDream graph.txt, with estimates for the cluster's
// device types that were not measured. What had to be derived is reported on standard error.
// `plan`: whose precision the times are for, unless --precision is given; null: the one that was
// measured.
Profile load_profile_of(const PlanningOptions& options, const Cluster& cluster,
                        const Plan* plan = nullptr);

// A profile that comes from no file, likewise.
Profile with_kinds_of(const PlanningOptions& options, const Cluster& cluster, Profile profile,
                      const Plan* plan = nullptr);

// The plan of a file, which may name the layers of the options' profile; unchecked.
Plan load_plan_of(const std::string& file, const PlanningOptions& options);

// The value of --precision for the cluster's device types; nothing if not given. UserError if it
// names another type.
std::optional<PrecisionChoice> precision_of(const PlanningOptions& options, const Cluster& cluster);

// The row --ema, for `plan` and `train`.
Option ema_option(PlanningOptions& options, PlanGiven given);
void check_ema(const PlanningOptions& options, Problems& problems);

// The row --precision, which shape_options holds as well.
Option precision_option(PlanningOptions& options, PlanGiven given);

// The rows except --cluster and --profile: what shapes a plan, and what parameter servers do.
OptionGroup shape_options(PlanningOptions& options, PlanGiven given);
OptionGroup server_options(PlanningOptions& options, PlanGiven given);

// The names of options, as typed, that a finished plan determines and that were given
// nevertheless.
std::vector<std::string> settled_by_plan(const PlanningOptions& options);
// All of that kind, without dashes.
std::vector<std::string> settling_options();

// Contradictions between options: an option of parameter servers for a system that
// all-reduces, minibatches in flight under a schedule with a flush, ... Names both and the remedy.
void check_planning_options(const PlanningOptions& options, Problems& problems);

// What was not specified is left to the search. Options that only systems with
// parameter servers have, or only pipelines without a flush, restrict it to the usual system.
// Only for planning: not all systems can be trained.
SearchChoice search_choice(const PlanningOptions& options);

// The planner request of the options; cluster and profile are those of the files named in them.
PlanRequest request_of(const PlanningOptions& options, Cluster cluster, Profile profile);

// Applies the options that override a plan file. UserError if the plan has no parameter server
// for them.
void override_plan(const PlanningOptions& options, const Cluster& cluster, Plan& plan);

}  // namespace hetpipe
