// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/simulation_json.h"

#include "base/json.h"

namespace hetpipe {
namespace {

constexpr int kDocumentVersion = 1;

Json json_of(const SimulatedChange& change, const Plan& plan) {
  Json json{{"changes", change.changes},
            {"planned_anew", change.planned_anew},
            {"minibatch", plan.minibatch},
            {"micro_batches", plan.micro_batches},
            {"in_flight", plan.in_flight}};
  if (plan.server) json["clock_distance"] = plan.server->clock_distance;
  return json;
}

}  // namespace

std::string simulation_json(const Plan& plan, const Simulation& simulation,
                            const std::vector<UnmeasuredTimes>& unmeasured,
                            const std::optional<SimulatedChange>& change) {
  Json json{{"version", kDocumentVersion},
            {"model", plan.model},
            {"system", plan.system},
            {"throughput", simulation.throughput},
            {"iteration_time", simulation.iteration_seconds},
            {"global_batch", simulation.global_batch},
            {"bytes_between_nodes", simulation.bytes_between_nodes},
            {"window", simulation.window_seconds},
            {"actions", simulation.actions},
            {"stages", Json::array()}};
  for (const SimulatedStage& stage : simulation.stages) {
    json["stages"].push_back({{"virtual_worker", stage.virtual_worker},
                              {"stage", stage.stage},
                              {"replica", stage.replica},
                              {"device", to_string(stage.device)},
                              {"busy", stage.busy},
                              {"bubble", stage.bubble},
                              {"communication", stage.communication},
                              {"peak_memory", stage.memory}});
  }
  if (change) json["what_if"] = json_of(*change, plan);
  json["unmeasured"] = unmeasured_json(unmeasured);
  if (simulation.replayed) {
    const Replayed& replayed = *simulation.replayed;
    json["replay"] = {{"minibatches", replayed.minibatches}, {"seconds", replayed.seconds},
                      {"recorded", replayed.recorded},       {"medians", replayed.medians},
                      {"of_profile", replayed.of_profile},   {"ignored", replayed.rest}};
  }
  return json.dump(2) + "\n";
}

}  // namespace hetpipe
