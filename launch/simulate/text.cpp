// SPDX-License-Identifier: Apache-2.0
#include "launch/simulate/text.h"

#include <algorithm>

#include "base/text.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostRows = 64;

std::string percent(double fraction) { return format("%.1f", 100 * fraction); }

}  // namespace

std::string replayed_text(const std::string& file, const Replayed& replayed) {
  std::string text =
      format("replayed: %lld minibatches of each virtual worker in %.6g s, with %lld times of %s\n",
             static_cast<long long>(replayed.minibatches), replayed.seconds,
             static_cast<long long>(replayed.recorded), file.c_str());
  if (!replayed.of_profile.empty()) {
    text +=
        "of the profile, as the file has none of these: " + join(replayed.of_profile, ", ") + "\n";
  }
  if (replayed.medians > 0) {
    text += format(
        "%lld actions behind the recorded minibatches take the median of their stage "
        "and kind\n",
        static_cast<long long>(replayed.medians));
  }
  if (replayed.rest > 0) {
    text += format(
        "%lld rows of actions that follow from the others (S, V, P, L, E, C) are not "
        "used\n",
        static_cast<long long>(replayed.rest));
  }
  return text;
}

std::string simulation_table(const Plan& plan, const Cluster& cluster,
                             const Simulation& simulation) {
  const System parts = composition(plan);
  std::string text = format(
      "%s under %s (%s, %s, %s)%s\n\n", plan.model.c_str(), plan.system.c_str(),
      std::string(to_string(parts.schedule)).c_str(), std::string(to_string(parts.weights)).c_str(),
      std::string(to_string(parts.sync)).c_str(),
      plan.runtime.empty() ? "" : (", as " + plan.runtime + " runs it").c_str());
  Table table({"worker", "stage", "device", "kind", "busy %", "bubble %", "communication %",
               "peak memory", "of", ""});
  const std::size_t shown = std::min(simulation.stages.size(), kMostRows);
  for (std::size_t row = 0; row < shown; ++row) {
    const SimulatedStage& stage = simulation.stages[row];
    const DeviceKind& kind = cluster.kind_of(stage.device);
    const bool first =
        row == 0 || simulation.stages[row - 1].virtual_worker != stage.virtual_worker;
    const bool same = !first && simulation.stages[row - 1].stage == stage.stage;
    table.add({first ? std::to_string(stage.virtual_worker) : "",
               same ? "" : std::to_string(stage.stage), to_string(stage.device), kind.name,
               percent(stage.busy), percent(stage.bubble), percent(stage.communication),
               format_bytes(static_cast<double>(stage.memory)),
               format_bytes(static_cast<double>(kind.memory)),
               stage.memory > kind.memory ? "too much" : ""});
  }
  text += table.text();
  if (shown < simulation.stages.size()) {
    text += format("%zu more devices are not shown (--json lists all)\n",
                   simulation.stages.size() - shown);
  }
  text += "\n";
  text += format("throughput %.4g samples/s: %d samples every %s\n", simulation.throughput,
                 simulation.global_batch, format_seconds(simulation.iteration_seconds).c_str());
  if (simulation.bytes_between_nodes > 0) {
    text += format("between nodes, for synchronisation: %s per iteration\n",
                   format_bytes(simulation.bytes_between_nodes).c_str());
  }
  return text;
}

}  // namespace hetpipe
