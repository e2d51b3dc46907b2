// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/training/run.h"

namespace hetpipe {

// Why a run ended, in a word: "finished", "target-accuracy", "stopped" (on request), "numerical" or
// "system" (the final state was not saved).
std::string exit_word(const RunEnd& end);

// The result of a run as JSON; docs/training.md describes the keys.
std::string result_json(const TrainJob& job, const RunEnd& end);

}  // namespace hetpipe
