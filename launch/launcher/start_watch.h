// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Watches the ranks during start-up, before there are roles and a run directory: a rank that is
// lost is named on standard error, and the others exit.
class StartWatch {
 public:
  // Called by all ranks together.
  StartWatch(double timeout_seconds, Transport& transport, Log& log);
  ~StartWatch();   // says goodbye if that was not done: this rank leaves on its own
  void goodbye();  // may throw JobEnds
  const std::string& problem() const { return lifeline_->problem(); }
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

 private:
  std::vector<std::string> names_;  // by rank
  bool goodbye_said_ = false;
  std::unique_ptr<Lifeline> lifeline_;
};

}  // namespace hetpipe
