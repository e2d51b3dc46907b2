// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launch/train/session.h"
#include "runtime/training/rank_device.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What every rank knows once the ranks have met.
struct Meeting {
  int code = 0;  // not 0: a rank had a system failure, which was reported; exit with this code
  bool ended = false;  // there is nothing left to train, which was reported
  TrainJob job;
  std::vector<RankFacts> facts;  // by rank
  Roles roles;
  std::vector<RankDevice> devices;  // by rank
  Preparation prepared;             // of rank 0
};

// The ranks of a launch exchange, in rounds:
//   what they are and how they were started; what was allocated to them, if a plan is made for
//   that; the job, which rank 0 reads for all; what each computes
//   on; whether the data that each opens are the job's; and, when nothing can be wrong any more,
//   the run directory.
// A mistake is UserError, the same on every rank; a system failure is reported by its rank; all get
// its code. Until the last round nothing has been written.
Meeting meet(const TrainCall& call, Transport& transport, Log& log);

}  // namespace hetpipe
