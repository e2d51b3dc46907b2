// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/transport/rank_state.h"

// A side channel besides MPI, so that a lost rank is detected on any host and whatever the
// launcher does: every rank holds a connection to rank 0, on which a thread of its own sends what
// the rank is doing. A rank that was killed is detected at once (its connection ends), one that was
// stopped by its silence. One rank reports the reason, and all exit with the same code.
namespace hetpipe {

// Why a job ends.
struct Failure {
  enum class What { died, silent, said };
  What what = What::said;
  std::vector<Rank> ranks;      // several that were lost together, or the one that reports
  int code = 0;                 // with which all exit
  std::string text;             // said; silent: for how long
  std::optional<Rank> culprit;  // said: the rank that it waited for
};

// The job ends with this code, and another rank has reported why (or will).
class JobEnds : public std::exception {
 public:
  explicit JobEnds(int code) : code_(code) {}
  int code() const { return code_; }
  const char* what() const noexcept override { return "the job ends: another rank reports why"; }

 private:
  int code_;
};

struct LifelineSetup {
  Rank rank;
  std::vector<std::string> machines;  // by rank: the same text where ranks share a machine
  double timeout_seconds = 60;        // a silent rank is detected within it
  double grace_seconds = 1;  // for a rank's own thread to leave; then it is ended from inside
  // Every rank's bytes; called by all ranks together.
  std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)> exchange;
  // These are called by the lifeline's thread. `state`: what this rank is doing.
  std::function<RankState()> state;
  // Once in the job, on rank 0; where that is lost, on the first of the others that may claim it.
  std::function<void(const Failure&, const std::vector<RankState>&)> say;
  std::function<bool()> claim;
};

class Lifeline {
 public:
  // Called by all ranks together. A rank that cannot be connected does without (see problem()).
  explicit Lifeline(LifelineSetup setup);
  // Without goodbye() before, the others consider this rank lost.
  ~Lifeline();
  Lifeline(const Lifeline&) = delete;
  Lifeline& operator=(const Lifeline&) = delete;

  // On rank 0: which ranks have no lifeline, and why. Empty: all have one.
  const std::string& problem() const;

  // What each rank was doing when it last responded.
  std::vector<RankState> states() const;

  // JobEnds once the job ends. Cheap: for every poll.
  void check() const;

  // This rank has failed: rank 0 reports it for all and all exit. Returns the exit code;
  // nothing when rank 0 could not be reached, so that this rank has to report it.
  std::optional<int> report(int code, const std::string& text, std::optional<Rank> culprit);

  // The work is done. Waits until rank 0 has heard it; rank 0 waits for all. May throw JobEnds.
  void goodbye();

 private:
  class Monitor;
  std::unique_ptr<Monitor> monitor_;
  std::string problem_;
};

}  // namespace hetpipe
