// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/simulate.h"

// What cannot be simulated: what is too large, and what takes no time.
namespace hetpipe {

// The most memory that a simulation may take, so that a slip in a plan ends in a message and not
// in a machine that swaps.
inline constexpr double kMostSimulationBytes = 8e9;

// About what playing `minibatches` of every virtual worker takes.
double bytes_to_play(const Plan& plan, const System& system, const SimulationRequest& request,
                     int minibatches);

// UserError if `bytes` is more than the most.
void check_size(const Plan& plan, const SimulationRequest& request, int minibatches, double bytes);

// UserError where the part of the run that is looked at is over as it begins: no pace follows.
void check_takes_time(double seconds);

}  // namespace hetpipe
