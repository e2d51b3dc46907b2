// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "partitioner/planners/search.h"

namespace hetpipe {

// Searches smaller_pools() of the pool, and where a plan is worth more there, takes it over and
// goes on from it: what a plan does without, it is not slowed down by. `idle`: the best plan so far
// does without these devices anyway. The result's plan, worth, work and devices left out change.
void leave_out_what_costs(
    const PlanRequest& request, SearchResult& result, bool groups,
    const std::function<SearchResult(const PlanRequest& less, bool idle)>& search);

}  // namespace hetpipe
