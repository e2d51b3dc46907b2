// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/run_directory.h"
#include "launch/train_job.h"
#include "launch/train_options.h"
#include "launch/train_roles.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What the first rank makes of the options, before the others hear of it: files read, checked and
// (where no profile was given) measured, a plan made, the run directory taken and filled. UserError
// with every problem.
struct Preparation {
  TrainJob job;
  std::optional<RunDirectory> directory;  // holds the lock as long as it lives
  std::string table;                      // the plan for people
  std::string resumed;                    // how a resumed run goes on
};
// ranks: of this launch; nothing where they follow from the plan. launch_command: the words that
// started them, for messages that print the right launch line.
Preparation prepare_training(const TrainOptions& options, const std::string& configuration,
                             std::optional<int> ranks, const std::string& launch_command, Log& log);

// A job as text, so that one rank can hand it to all.
std::string to_text(const TrainJob& job);
TrainJob job_from_text(const std::string& text);

// What a rank says of itself at the start.
struct RankFacts {
  std::string host;
  int pid = 0;
  int cores = 0;            // it may use
  std::int64_t memory = 0;  // bytes of the machine
  std::uint64_t build = 0;  // hash of the program
  std::string boot;         // names the running machine, whatever its host names
};
RankFacts facts_of_this_rank();

// Builds that differ, emulated links between machines: adds problems.
void check_together(const std::vector<RankFacts>& facts, const TrainJob& job, Problems& problems);
Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts);

// Every rank: host, process, device, memory, cores, role.
std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts);

// What a rank says when the ranks meet; the first one also hands over its job, or why there is
// none.
struct Opening {
  RankFacts facts;
  std::string job;  // as text
  std::string error;
  int code = 0;  // exit code of the error
};
std::string to_text(const Opening& opening);
Opening opening_from_text(const std::string& text);

}  // namespace hetpipe
