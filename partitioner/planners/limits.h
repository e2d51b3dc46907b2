// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

// What several planners have in common.
namespace hetpipe {

constexpr double kInfinity = std::numeric_limits<double>::infinity();  // s: of what is impossible
constexpr double kEqual = 1 + 1e-12;  // between two ways to add up the same times
constexpr int kMostInFlight = 64;     // minibatches, ever tried

}  // namespace hetpipe
