// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/log.h"
#include "launch/train_job.h"
#include "launch/train_reporter.h"
#include "launch/train_roles.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What a rank needs beside the job.
struct RankSetting {
  Transport& transport;
  const Roles& roles;
  OpenData open_data;
  std::string host;
  Log& log;  // rank 0's speaks
  Watchers watchers{};
};

// One rank's part in a training, from its role to the end of the run. Rank 0 returns the outcome
// (others an empty one). Links must have been emulated already where the cluster asks for it.
Reporter::Outcome run_rank(const TrainJob& job, const RankSetting& setting);

}  // namespace hetpipe
