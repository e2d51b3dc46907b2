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

// What the first rank derives from the options, before it tells the others.
struct Preparation {
  TrainJob job;
  std::optional<RunDirectory> directory;  // holds the lock as long as it lives
  std::string table;                      // the plan as text
  std::string resumed;                    // how a resumed run continues
  std::string ended;                      // why there is nothing left to train; empty: there is
  std::vector<std::string> notes;         // of what the plan was made for
};
// Reads files, checks them, measures if no profile was given, makes a plan. UserError with every
// problem; writes nothing. ranks: of this launch; nothing where they follow from the plan.
// launch_command: the words that started them, for messages that print the correct launch line.
// ground: instead of files, if this launch's own devices are requested.
Preparation prepare_training(const TrainOptions& options, std::optional<int> ranks,
                             const std::string& launch_command, Log& log,
                             const Ground* ground = nullptr);
// Creates the run directory and writes what was decided; the job gets its folders.
void take_run_directory(const TrainOptions& options, const std::string& configuration,
                        Preparation& prepared, Log& log);

// UserError if a launch has another number of ranks than the plan needs.
void check_ranks(const TrainJob& job, std::optional<int> ranks, const std::string& command);
// Once the job is known: emulated links between machines, more threads than cores. UserError.
void check_together(const std::vector<RankFacts>& facts, const Roles& roles, const TrainJob& job,
                    const std::string& command);
// UserError if hosts and plan do not match.
Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts,
                   const std::string& command);
// A warning if workers that are not emulated have to share cores; else empty.
std::string shared_cores(const std::vector<RankFacts>& facts, const Roles& roles,
                         const TrainJob& job);

// The lines that start this job.
std::string launch_lines(const TrainJob& job, const std::string& command);

// Every rank: host, process, device, memory, cores, role.
std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts,
                   const std::vector<RankDevice>& devices);

}  // namespace hetpipe
