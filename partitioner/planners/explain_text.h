// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/planners/explain.h"

namespace hetpipe {

// An explanation's numbers in words, one question a sentence.
std::vector<std::string> sentences(const Explanation& explanation, const PlanRequest& request,
                                   const Plan& plan);

}  // namespace hetpipe
