// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/sbatch/script.h"

// What a batch script does between its start and its end, in bash.
namespace hetpipe {

// Launches the training until it has ended, for the last time or until the job is requeued. Uses
// the script's variables hetpipe, pool (where the job has one), run, attempts, notice and train.
std::string loop_of(const BatchJob& job);

}  // namespace hetpipe
