// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

// What several planners have in common.
namespace hetpipe {

constexpr double kInfinity = std::numeric_limits<double>::infinity();  // s: of what is impossible
constexpr int kMostInFlight = 64;                                      // minibatches, ever tried
constexpr double kGrowth = 1.01;      // of throughput, that one more step of depth must bring
constexpr double kEqual = 1 + 1e-12;  // two ways to add up the same times

// Devices of a pool in which there is time for more than one sync, and in which what cannot be cut
// quickly is not worth more: others can.
constexpr std::size_t kFewInSpace = 128;

// Steps of the partitioner for a virtual worker of a search: a millisecond.
constexpr std::int64_t kCutWork = 30'000;

}  // namespace hetpipe
