// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/training/job.h"

namespace hetpipe {

// A job as text, so that one rank can hand it to all.
std::string to_text(const TrainJob& job);
TrainJob job_from_text(const std::string& text);

}  // namespace hetpipe
