// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/chrome_trace.h"

#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/simulator/chrome_events.h"

namespace hetpipe {

std::string chrome_trace(const Simulation& simulation, const Cluster& cluster) {
  ChromeEvents events;
  std::set<int> named;
  std::vector<int> process;  // [row]
  for (const SimulatedStage& stage : simulation.stages) {
    const auto node = cluster.find_node(stage.device.node);
    ensure(node.has_value(), "a simulated device is one of the cluster");
    process.push_back(node->value);
    if (named.insert(node->value).second) events.name_process(node->value, stage.device.node);
    events.name_thread(
        node->value, stage.device.index,
        format("%s %s, worker %d stage %d", to_string(stage.device).c_str(),
               cluster.kind_of(stage.device).name.c_str(), stage.virtual_worker, stage.stage));
  }
  for (const SimulatedEvent& event : simulation.events) {
    if (event.end <= event.start) continue;
    const auto row = static_cast<std::size_t>(event.row);
    const SimulatedStage& stage = simulation.stages[row];
    events.add({event.action, process[row], stage.device.index, event.start, event.end},
               format(",\"virtual_worker\":%d,\"stage\":%d,\"replica\":%d", stage.virtual_worker,
                      stage.stage, stage.replica));
  }
  return std::move(events).text();
}

}  // namespace hetpipe
