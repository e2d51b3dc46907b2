// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/train/options.h"
#include "runtime/model/model.h"
#include "runtime/store/checkpoint.h"
#include "runtime/training/job.h"

// The parts of prepare_training(): it reads, decides and checks, one after another.
namespace hetpipe {

struct Ground;

// Reading. What the options name, as it was found: nothing has been decided, and nothing checked
// against anything else.
struct Given {
  TrainOptions options;  // with the files of the run that is resumed
  TrainJob job;          // cluster, profile, plan if there is one, model, data; nothing else
  Model model;
  std::string plan_file;  // what messages call the plan and the profile
  std::string profile_file;
};
// Measures the model where a profile is needed and none is given. UserError at the first thing that
// cannot be read or is missing.
Given read_given(const TrainOptions& options, const Ground* ground, Log& log);

// Deciding. What follows from what was given; whether it fits together is asked afterwards.
// The plan that was given, or one that is made.
Plan decide_plan(const Given& given, const Ground* ground);
// Rates, and the scope of clipping; the schedule of rates comes when the start is known.
OptimizerOptions decide_optimizer(const TrainOptions& options, const Plan& plan);
// The schedule of rates that the options ask for, or else the usual one.
RateOptions decide_rates(const TrainOptions& options, const Plan& plan);
// Why the learning rate is not the usual one; empty: it is, or the options say it.
std::string note_on_rate(const TrainOptions& options, const Plan& plan);
// What the options say and nothing else changes.
void take_options(const TrainOptions& options, TrainJob& job);
// A hash of what training follows beside plan, data and arithmetic. The job has its optimizer.
std::uint64_t recipe_hash(const TrainOptions& options, const TrainJob& job);

// Where a resumed run continues.
struct Resumption {
  StartingPoint start;
  std::optional<Checkpoint> checkpoint;  // none: a fresh start
  std::string how;                       // for people
  std::string ended;                     // why there is nothing left to train; empty: there is
  std::vector<Problem> damaged;          // newer checkpoints, which were passed over
};
Resumption decide_resumption(const TrainOptions& options, const TrainJob& job);

// Files and folders of what others watch, before anything is read.
void check_monitored_files(const TrainOptions& options);

// Checking. UserError with all problems at once that can be found before the next decision.
// Before a plan is made from it: a profile of the model.
void check_profile(const Given& given);
// The plan against the model, the cluster, the data and the devices' memory. `job` has the plan.
void check_plan_of(const TrainJob& job, const Given& given);
// Everything else, once all is decided but the schedule of rates.
void check_training(const TrainJob& job, const Given& given, const Resumption& resumption);

}  // namespace hetpipe
