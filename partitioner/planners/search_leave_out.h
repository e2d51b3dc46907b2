// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "partitioner/planners/search.h"

namespace hetpipe {

// A pool without one of its devices.
Cluster without_device(const Cluster& cluster, const DeviceName& device);

// Searches the pool without one device of each kind and node, and where a plan is worth more there,
// takes it over and goes on from it: what a plan does without, it is not slowed down by. `groups`:
// also without all devices of a kind on a node, and without nodes (any of up to five). `idle`: the
// best plan so far does without these devices anyway. The result's plan, worth, work and devices
// left out change.
void leave_out_what_costs(
    const PlanRequest& request, SearchResult& result, bool groups,
    const std::function<SearchResult(const PlanRequest& less, bool idle)>& search);

}  // namespace hetpipe
