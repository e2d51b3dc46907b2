// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/planners/search_space.h"

namespace hetpipe {

// Seconds by which the sums of gradients lengthen a minibatch of flushed pipelines of unreplicated
// stages, beyond what the slowest of the virtual workers takes by itself: paces put together, no
// simulation. Layers that are cut alike everywhere go along a chain of their devices
// (simulator/all_reduce.h), whose hops share the nodes' interfaces in the order in which they can
// begin; the next minibatch passes a stage when its sums are there.
double seconds_of_sums(const SearchSpace& space, const Plan& plan,
                       const std::vector<WorkerPace>& paces);

}  // namespace hetpipe
