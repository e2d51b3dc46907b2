// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Watches over the ranks while they meet, before there are roles and a run directory: whoever is
// lost is named on standard error, and the others leave.
class StartWatch {
 public:
  // Called by all ranks together.
  StartWatch(double timeout_seconds, Transport& transport, Log& log);
  ~StartWatch();   // says goodbye where that was not done: this rank leaves by itself
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
