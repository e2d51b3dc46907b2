// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launch/train/session.h"
#include "runtime/training/rank_device.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What every rank knows once the ranks have met.
struct Meeting {
  int code = 0;  // not 0: a rank's machine failed, which has been said; leave with this exit code
  bool ended = false;  // there is nothing left to train, which has been said
  TrainJob job;
  std::vector<RankFacts> facts;  // by rank
  Roles roles;
  std::vector<RankDevice> devices;  // by rank
  Preparation prepared;             // of rank 0
};

// The ranks of a launch come together, by rounds in which each says something and all hear it:
//   what they are and how they were called; what was given to them, where a plan is to be made for
//   that; the job, which rank 0 reads for all; what each computes
//   on; whether the data that each opens are the job's; and, when nothing can be wrong any more,
//   the run directory.
// A mistake is UserError, the same on every rank; a rank whose machine fails says so, and all get
// its code. Until the last round nothing has been written.
Meeting meet(const TrainCall& call, Transport& transport, Log& log);

}  // namespace hetpipe
