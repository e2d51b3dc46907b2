// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/virtual_stages.h"

#include <algorithm>

namespace hetpipe {

VirtualStages::VirtualStages(const Schedule& schedule)
    : devices(static_cast<int>(schedule.size())) {
  for (const StageActions& actions : schedule) {
    for (const Action& action : actions) chunks = std::max(chunks, action.chunk + 1);
  }
}

Needed neighbour(const VirtualStages& stages, std::size_t device, Action action, int by) {
  const int there = stages.of(static_cast<int>(device), action.chunk) + by;
  action.chunk = there / stages.devices;
  return {static_cast<std::size_t>(there % stages.devices), action};
}

}  // namespace hetpipe
