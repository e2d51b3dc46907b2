// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/placement.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {
namespace {

// How many virtual workers keep `layer` on each of the shards' nodes.
std::vector<int> owners_per_shard(const Plan& plan, int layer) {
  const auto& nodes = plan.server->nodes;
  std::vector<int> votes(nodes.size(), 0);
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      if (layer < stage.first_layer || layer >= stage.end_layer) continue;
      const auto at = std::find(nodes.begin(), nodes.end(), stage.devices.front().node);
      if (at != nodes.end()) ++votes[static_cast<std::size_t>(at - nodes.begin())];
    }
  }
  return votes;
}

}  // namespace

std::vector<int> shard_of_layers(const Plan& plan, std::span<const std::int64_t> parameter_bytes) {
  ensure(plan.server && !plan.server->nodes.empty(), "a plan without servers has no shards");
  const int shards = static_cast<int>(plan.server->nodes.size());
  std::vector<int> result(parameter_bytes.size(), -1);
  int next = 0;
  for (std::size_t layer = 0; layer < result.size(); ++layer) {
    if (parameter_bytes[layer] == 0) continue;
    if (plan.server->placement != "local") {
      result[layer] = next++ % shards;
      continue;
    }
    const std::vector<int> votes = owners_per_shard(plan, static_cast<int>(layer));
    const auto most = std::max_element(votes.begin(), votes.end());
    if (*most == 0) {
      throw UserError("", "placement 'local': no parameter server is on a node that owns layer " +
                              std::to_string(layer) +
                              " (its shard would have to cross nodes). Add the node to "
                              "[parameter_server] nodes, or use placement = \"default\".");
    }
    result[layer] = static_cast<int>(most - votes.begin());
  }
  return result;
}

}  // namespace hetpipe
