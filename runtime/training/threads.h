// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/log.h"
#include "runtime/training/job.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"

namespace hetpipe {

// A whole training with its ranks as threads of this process, one for each role; returns when all
// have ended. Links are emulated where the job's cluster asks for it. When a rank fails the others
// end too, and the first failure is thrown.
RunEnd train_as_threads(const TrainJob& job, const Roles& roles, const OpenData& open_data,
                        const std::string& host, Log& log,
                        const std::function<std::optional<int>()>& stop_wanted = {},
                        const std::string& plan_cache = {});

}  // namespace hetpipe
