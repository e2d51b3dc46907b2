// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/plan/plan.h"

namespace hetpipe {

// The plan as one JSON document, with the keys of the plan file (docs/files.md), `predicted`
// included.
std::string to_json(const Plan& plan);

}  // namespace hetpipe
