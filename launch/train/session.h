// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launch/command/subcommand.h"
#include "launch/train/prepare.h"
#include "runtime/training/rank_facts.h"
#include "runtime/training/run.h"

namespace hetpipe {

// One call of `hetpipe train`, as all of its ranks were called.
struct TrainCall {
  TrainOptions options;
  std::string configuration;      // of all options, as a file
  std::string recipe;             // its name, and what was given instead; empty: none
  std::string changed;            // against the run that is resumed; empty: nothing
  std::string command;            // as typed, for launch lines in messages
  bool mpi_reaches_gpus = false;  // version of this rank's library
};

// `directory`: of a run that came to its end, on rank 0, which has nothing else to do any more.
struct TrainEnd {
  int code = 0;
  std::filesystem::path directory{};
};
TrainEnd train_over_mpi(const TrainCall& call);
TrainEnd train_in_threads(const TrainCall& call);

// Common to both on rank 0: the messages before the first wave, and those after the last.
void greet(const TrainCall& call, const Preparation& prepared, const Roles& roles,
           const std::vector<RankFacts>& facts, const std::vector<RankDevice>& devices,
           const std::string& transport, Log& log);
// Where text goes: standard output, unless that is for the result.
Log log_of(const TrainOptions& options, Rank rank);
void close_run(const TrainCall& call, const TrainJob& job, int ranks, const RunEnd& end,
               const Preparation& prepared, Log& log);
// Opens the data of these options; UserError if they are not those of the job.
OpenData data_of(const TrainOptions& options, const TrainJob& job);

}  // namespace hetpipe
