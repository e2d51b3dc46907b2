// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/training/run.h"

namespace hetpipe {

// Why a run ended, in a word: "finished", "target-accuracy", "stopped" (on request), "numerical" or
// "system" (the state at the end was not saved).
std::string exit_word(const RunEnd& end);

// What came of a run, for machines; docs/training.md says what the keys mean.
std::string result_json(const TrainJob& job, const RunEnd& end);

}  // namespace hetpipe
