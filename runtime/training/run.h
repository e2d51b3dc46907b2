// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "partitioner/simulator/timeline.h"
#include "runtime/training/job.h"
#include "runtime/training/rank_device.h"
#include "runtime/training/reporter.h"
#include "runtime/training/roles.h"
#include "runtime/transport/path_choice.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What a rank needs in addition to the job.
struct RankSetting {
  Transport& transport;
  const Roles& roles;
  OpenData open_data;
  std::string host;
  std::vector<RankDevice> devices;                    // by rank
  std::vector<PathEnd> ends;                          // by rank
  Log& log;                                           // rank 0's prints
  std::function<std::optional<int>()> stop_wanted{};  // the signal that asks to stop, if one came
  std::string plan_cache{};  // file in which a GPU keeps its execution plans; empty: nowhere
  Watchers watchers{};
  std::shared_ptr<const Timeline> timeline{};  // of the job, where its clock is simulated
};

// How a rank's part ended.
struct RunEnd {
  ExitCode code = ExitCode::done;  // the same on all ranks: done, stopped, or its end was not saved
  Reporter::Outcome outcome;       // rank 0's; empty on others
};

// One rank's part in a training, from its role to the end of the run. Links must have been emulated
// already if the cluster requires it.
RunEnd run_rank(const TrainJob& job, const RankSetting& setting);

// A whole training with its ranks as threads of this process, one for each role; returns when all
// have ended. Links are emulated where the job's cluster asks for it. When a rank fails the others
// end too, and the first failure is thrown.
RunEnd train_as_threads(const TrainJob& job, const Roles& roles, const OpenData& open_data,
                        const std::string& host, Log& log,
                        const std::function<std::optional<int>()>& stop_wanted = {},
                        const std::string& plan_cache = {});

// Why a run ended, in a word: "finished", "target-accuracy", "stopped" (on request), "numerical" or
// "system" (the state at the end was not saved).
std::string exit_word(const RunEnd& end);

// What came of a run, for machines; docs/training.md says what the keys mean.
std::string result_json(const TrainJob& job, const RunEnd& end);

}  // namespace hetpipe
