// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/train/reporter.h"
#include "launch/train/roles.h"
#include "launch/train/run.h"
#include "launch/train/values.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/store/trace.h"

namespace hetpipe {

// A rank's part as a worker: builds its stages on their device, and plays their schedule to the end
// of the run. `trace` and `reporter` may be null.
void run_worker(const TrainValues& values, const Role::Worker& role, const RankSetting& setting,
                RankService& service, TraceWriter* trace, Reporter* reporter);

}  // namespace hetpipe
