// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/pipeline/flight_recorder.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/training/job.h"
#include "runtime/training/rank_facts.h"
#include "runtime/training/roles.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What is needed to name a rank in one line.
struct RankNames {
  const Roles& roles;
  const std::vector<RankFacts>& facts;
  // "rank 3 on gpu07 (n1:1, virtual worker 1, stage 1, pid 4711)"
  std::string of(Rank rank) const;
};

// One line: which rank was lost, or reported what, and what it was last doing.
std::string failure_line(const Failure& failure, const std::vector<RankState>& states,
                         const RankNames& names, std::int64_t now_ns);

// Watches a training under MPI: every rank's recorder (DIR/flight/rank-R) and its lifeline.
// When a rank is lost or fails, one reports it on standard error and in train.log, with the last
// actions of all ranks if requested, and all exit.
class TrainWatch {
 public:
  // Called by all ranks together. entries: of each recorder.
  TrainWatch(const std::filesystem::path& run, int entries, double timeout_seconds,
             const Roles& roles, const std::vector<RankFacts>& facts, Transport& transport,
             Log& log);

  Watchers watchers() {
    return {recorder_.get(), lifeline_.get(), [this] { return lifeline_->states(); }};
  }
  // This rank fails: reports why, through rank 0 if possible. Returns the code to abort with.
  int leave(const std::exception& error);
  void goodbye() { lifeline_->goodbye(); }

 private:
  void say(const Failure& failure, std::vector<RankState> states);
  bool claim() const;
  std::filesystem::path flight_of(std::size_t rank) const;
  bool on_this_machine(std::size_t rank) const;

  const std::filesystem::path run_;
  const int entries_;
  const RankNames names_;
  const Rank rank_;
  Log& log_;
  std::unique_ptr<FlightRecorder> recorder_;
  std::unique_ptr<Lifeline> lifeline_;  // calls say() and claim() until it is gone
};

}  // namespace hetpipe
