// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Where there is no lifeline: "rank 1 on n1: why". Returns the exit code.
int say_alone(const std::exception& error, Rank rank, Log& log);

// Watches the ranks during start-up, before there are roles and a run directory: a rank that is
// lost or fails is named on standard error, and the others exit.
class StartWatch {
 public:
  // Called by all ranks together. `when`: what they are doing, for the message.
  StartWatch(double timeout_seconds, Transport& transport, Log& log,
             std::string when = "while the ranks were starting");
  // Says goodbye if that was not done, and if this rank did not leave(): all leave together.
  ~StartWatch();
  void goodbye();  // may throw JobEnds
  // This rank fails, and the others do not know: they hear why, which is said once, and exit.
  // Returns the code to abort with.
  int leave(const std::exception& error);
  const std::string& problem() const { return lifeline_->problem(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  void say(const Failure& failure);

  Log& log_;
  const Rank rank_;
  const std::string when_;
  std::vector<std::string> names_;  // by rank
  bool left_ = false;
  std::unique_ptr<Lifeline> lifeline_;
};

}  // namespace hetpipe
