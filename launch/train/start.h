// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/train/options.h"
#include "runtime/training/job.h"
#include "runtime/training/rank_device.h"
#include "runtime/training/rank_facts.h"
#include "runtime/training/roles.h"
#include "runtime/training/run_directory.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

struct Ground;

// What the first rank makes of the options, before the others hear of it.
struct Preparation {
  TrainJob job;
  std::optional<RunDirectory> directory;  // holds the lock as long as it lives
  std::string table;                      // the plan for people
  std::string resumed;                    // how a resumed run goes on
  std::string ended;                      // why there is nothing left to train; empty: there is
  std::vector<std::string> notes;         // of what the plan was made for
};
// Reads files, checks them, measures where no profile was given, makes a plan. UserError with every
// problem; writes nothing. ranks: of this launch; nothing where they follow from the plan.
// launch_command: the words that started them, for messages that print the right launch line.
// ground: in place of files, where this launch's own devices are asked for.
Preparation prepare_training(const TrainOptions& options, std::optional<int> ranks,
                             const std::string& launch_command, Log& log,
                             const Ground* ground = nullptr);
// Takes the run directory and fills it with what was decided; the job learns of its folders.
void take_run_directory(const TrainOptions& options, const std::string& configuration,
                        Preparation& prepared, Log& log);

// UserError where a launch has another number of ranks than the plan needs.
void check_ranks(const TrainJob& job, std::optional<int> ranks, const std::string& command);
// Once the job is known: emulated links between machines, more threads than cores. UserError.
void check_together(const std::vector<RankFacts>& facts, const Roles& roles, const TrainJob& job,
                    const std::string& command);
// UserError where hosts and plan do not fit.
Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts,
                   const std::string& command);
// A warning where workers that are not emulated have to share cores; else empty.
std::string shared_cores(const std::vector<RankFacts>& facts, const Roles& roles,
                         const TrainJob& job);

// The lines that start this job.
std::string launch_lines(const TrainJob& job, const std::string& command);

// Every rank: host, process, device, memory, cores, role.
std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts,
                   const std::vector<RankDevice>& devices);

}  // namespace hetpipe
