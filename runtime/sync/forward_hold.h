// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/pipeline/rank_service.h"

namespace hetpipe {

// A worker's part in a stop inside of a wave (StopInside): says which minibatch its first stage
// comes to next, and holds that one until all ranks know where the run stops. Lives as long as the
// rank takes messages: the question may come before the first minibatch, and behind the last.
class ForwardHold {
 public:
  // `decides`: the rank that asks. `next`: the run's first minibatch.
  ForwardHold(RankService& service, Rank decides, Minibatch next);
  ForwardHold(const ForwardHold&) = delete;
  ForwardHold& operator=(const ForwardHold&) = delete;

  void before_forward(Minibatch p);

 private:
  RankService& service_;
  Rank decides_;
  Minibatch next_;  // not begun
  bool asked_ = false;
  bool may_go_ = false;
};

}  // namespace hetpipe
