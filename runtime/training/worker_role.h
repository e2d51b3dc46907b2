// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/pipeline/rank_service.h"
#include "runtime/store/trace.h"
#include "runtime/sync/forward_hold.h"
#include "runtime/sync/gate_labels.h"
#include "runtime/sync/shared_blocks.h"
#include "runtime/sync/stop_coordinator.h"
#include "runtime/training/paths.h"
#include "runtime/training/reporter.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "runtime/training/values.h"
#include "runtime/training/warm_ranks.h"

namespace hetpipe {

// A rank's part as a worker: builds its stages on their device, and runs their schedule to the end
// of the run.
struct WorkerCompany {  // in this rank; each may be null
  TraceWriter* trace = nullptr;
  Reporter* reporter = nullptr;
  StopCoordinator* stop = nullptr;
  ForwardHold* hold = nullptr;
  GateLabels* gates = nullptr;
  std::shared_ptr<PathWords> path_words{};
  WarmRanks* warm = nullptr;
};
void run_worker(const TrainValues& values, const Role::Worker& role, const RankSetting& setting,
                RankService& service, SharedBlocks& blocks, const WorkerCompany& company);

}  // namespace hetpipe
