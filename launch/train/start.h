// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/train/job.h"
#include "launch/train/options.h"
#include "launch/train/rank_device.h"
#include "launch/train/roles.h"
#include "launch/train/run_directory.h"
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

// A job as text, so that one rank can hand it to all.
std::string to_text(const TrainJob& job);
TrainJob job_from_text(const std::string& text);

// What a rank says of itself at the start.
struct RankFacts {
  std::string host;
  int pid = 0;
  std::vector<int> cores;     // that it may run on
  int online = 0;             // cores of the machine
  std::int64_t memory = 0;    // bytes of the machine
  std::uint64_t build = 0;    // hash of the program
  std::string boot;           // names the running machine, whatever its host names: one clock
  std::string place;          // the same where loopback and process ids are: containers differ
  std::string configuration;  // all options, as a file
  bool mpi_reaches_gpus = false;
};
RankFacts facts_of_this_rank();
// "rank 3 on n1", "ranks 1, 2 and 3 on n1 and n2".
std::string named(const std::vector<std::size_t>& ranks, const std::vector<RankFacts>& facts);
std::vector<std::string> hosts_of(const std::vector<RankFacts>& facts);
std::string to_text(const RankFacts& facts);
RankFacts facts_from_text(const std::string& text);

// Before anything is read: one build, called with the same options (but for the place of the data,
// which may differ from host to host). UserError.
void check_alike(const std::vector<RankFacts>& facts);
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
