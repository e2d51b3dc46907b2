// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../cases.h"
#include "partitioner/planners/planner.h"

namespace hetpipe::test {

// Three fast and three slow devices on three nodes, and a chain of twelve equal layers.
inline PlanRequest six_devices(SystemChoice systems) {
  PlanRequest request;
  request.cluster =
      cluster_of({{"fast", "fast"}, {"fast", "slow"}, {"slow", "slow"}}, 1'000'000'000);
  request.profile =
      chain_of(12, {"fast", "slow"}, [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  request.search = {systems, {0}, {"default"}};
  return request;
}

}  // namespace hetpipe::test
