// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/planners/explain.h"

namespace hetpipe {

// An explanation as text, one sentence per question.
std::vector<std::string> sentences(const Explanation& explanation, const PlanRequest& request,
                                   const Plan& plan);

}  // namespace hetpipe
