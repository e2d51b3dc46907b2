// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_check.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/generate.h"

namespace hetpipe {

std::string PlanPlaces::stage(std::size_t vw, std::size_t k) const {
  return stages.empty() ? file : file + ":" + std::to_string(stages[vw][k]);
}

std::string PlanPlaces::of_server() const {
  return stages.empty() ? file : file + ":" + std::to_string(server);
}

namespace {

constexpr std::int64_t kMostMicroBatchesInFlight = 100000;

class PlanCheck {
 public:
  PlanCheck(const Plan& plan, const PlanPlaces& places, const Cluster* cluster, Problems& problems)
      : plan_(plan), places_(places), cluster_(cluster), problems_(problems) {}

  void run(int layer_count) {
    if (plan_.virtual_workers.empty()) {
      problems_.add(places_.file,
                    "no virtual worker (at least one is needed). Add a "
                    "[[virtual_worker]] with its stages.");
    }
    if (plan_.micro_batches < 1 || plan_.in_flight < 1) {
      problems_.add(places_.file, "micro_batches and in_flight must be positive. Correct them.");
      return;
    }
    if (std::int64_t{plan_.micro_batches} * plan_.in_flight > kMostMicroBatchesInFlight) {
      problems_.add(places_.file,
                    format("micro_batches = %d and in_flight = %d (together more than %lld "
                           "micro-batches in flight). Lower one.",
                           plan_.micro_batches, plan_.in_flight,
                           static_cast<long long>(kMostMicroBatchesInFlight)));
    }
    if (layer_count == 0 && !plan_.virtual_workers.empty() &&
        !plan_.virtual_workers[0].stages.empty()) {
      layer_count =
          plan_.virtual_workers[0].stages.back().end_layer;  // all must end where one does
    }
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) check_worker(vw, layer_count);
    if (plan_.server) check_server(*plan_.server);
  }

 private:
  void check_worker(std::size_t vw, int layer_count) {
    const auto& stages = plan_.virtual_workers[vw].stages;
    const int minibatch = plan_.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
    if (stages.empty()) {
      problems_.add(places_.file,
                    format("virtual worker %zu has no stage (it would do nothing). Add "
                           "a [[virtual_worker.stage]].",
                           vw));
      return;
    }
    if (minibatch < 1 || minibatch % plan_.micro_batches != 0) {
      problems_.add(
          places_.stage(vw, 0),
          format("virtual worker %zu: minibatch = %d does not divide into micro_batches = "
                 "%d (they are equal slices of it). Change one.",
                 vw, minibatch, plan_.micro_batches));
    }
    int next = 0;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      check_layers(vw, k, next, layer_count);
      next = stages[k].end_layer;
      check_devices(vw, k, minibatch / plan_.micro_batches);
    }
  }

  void check_layers(std::size_t vw, std::size_t k, int next, int layer_count) {
    const PlanStage& stage = plan_.virtual_workers[vw].stages[k];
    const bool last = k + 1 == plan_.virtual_workers[vw].stages.size();
    if (stage.first_layer != next) {
      add(vw, k,
          format("layers start at %d (the previous stage ends at %d: every layer once, in order). "
                 "Start at %d.",
                 stage.first_layer, next, next));
    }
    if (stage.end_layer <= stage.first_layer) {
      add(vw, k,
          format("layers [%d, %d] is an empty range (first, one past the last). Give the stage at "
                 "least one "
                 "layer.",
                 stage.first_layer, stage.end_layer));
    }
    if (last && stage.end_layer != layer_count) {
      add(vw, k,
          format("layers end at %d (the model has %d). End the last stage at %d.", stage.end_layer,
                 layer_count, layer_count));
    }
  }

  void check_devices(std::size_t vw, std::size_t k, int micro_batch) {
    const PlanStage& stage = plan_.virtual_workers[vw].stages[k];
    if (stage.devices.empty()) {
      add(vw, k, "no device (a stage runs on one). Name it as devices = [\"node:0\"].");
    }
    for (const DeviceName& device : stage.devices) {
      if (!used_.insert(device).second && !next_chunk(vw, k)) {
        add(vw, k,
            "device " + to_string(device) +
                " is used twice (one stage per device). Use each once.");
      }
      if (cluster_ != nullptr && !cluster_->has(device)) {
        add(vw, k,
            unknown("device", to_string(device), device_names()) +
                ". Name a device of the cluster file.");
      }
    }
    if (stage.shares.empty()) return;
    const std::int64_t sum =
        std::accumulate(stage.shares.begin(), stage.shares.end(), std::int64_t{0});
    if (stage.shares.size() != stage.devices.size() || sum != micro_batch) {
      add(vw, k,
          format(
              "shares (%zu, adding up to %lld) do not split a micro-batch of %d samples over %zu "
              "devices. Correct them.",
              stage.shares.size(), static_cast<long long>(sum), micro_batch, stage.devices.size()));
    }
  }

  // An interleaved schedule gives its devices one chunk of the model after the other: stage k
  // stands on the devices of stage k - p, where p is their number.
  bool next_chunk(std::size_t vw, std::size_t k) const {
    const auto& stages = plan_.virtual_workers[vw].stages;
    const auto rule = try_parse_schedule_rule(plan_.schedule);
    if (!rule || !traits(*rule).several_chunks) return false;
    std::size_t positions = 1;
    while (positions < stages.size() && stages[positions].devices != stages[0].devices) {
      ++positions;
    }
    return stages.size() % positions == 0 && k >= positions &&
           stages[k].devices == stages[k - positions].devices;
  }

  void check_server(const PlanServer& server) {
    const auto problem = [&](std::string text) {
      problems_.add(places_.of_server(), "[parameter_server]: " + std::move(text));
    };
    if (server.nodes.empty()) problem("no node (each holds a shard). Name at least one.");
    if (server.clock_distance < 0) problem("clock_distance is negative. Use 0 or more.");
    if (server.halves_pushes() && !traits(composition(plan_).sync).waves()) {
      problem("push_precision = \"" + server.push_precision + "\" and sync = \"" +
              std::string(to_string(composition(plan_).sync)) +
              "\" (gradients are added up between the workers: nothing is pushed). Leave it out, "
              "or set sync = \"" +
              std::string(to_string(SyncRule::wsp)) + "\".");
    }
    const SyncRule sync = composition(plan_).sync;
    if (!traits(sync).rounds && server.round != 1) {
      problem(
          format("round = %d and sync = \"%s\" (it pushes every wave). Leave it out, or set "
                 "sync = \"%s\".",
                 server.round, std::string(to_string(sync)).c_str(),
                 std::string(to_string(SyncRule::outer)).c_str()));
    }
    if (traits(sync).steps && server.scale != "mean") {
      problem("scale = \"" + server.scale + "\" and sync = \"" + std::string(to_string(sync)) +
              "\" (the servers' optimizer takes the mean of the gradients). Leave it out.");
    }
    if (server.round < 1) problem("round is not positive. Use 1 or more.");
    std::set<std::string> seen;
    for (const std::string& node : server.nodes) {
      if (!seen.insert(node).second) {
        problem("node '" + node + "' is named twice (one shard per node). Remove one.");
      }
      if (cluster_ != nullptr && !cluster_->find_node(node)) {
        std::vector<std::string> names;
        for (const Node& known : cluster_->nodes) names.push_back(known.name);
        problem(unknown("node", node, names) + ". Name a node of the cluster file.");
      }
      const bool worker = std::any_of(used_.begin(), used_.end(),
                                      [&](const DeviceName& d) { return d.node == node; });
      if (server.hosted && !worker) {
        problem("hosted = true and no worker on node '" + node +
                "' (its first worker rank would host the shard). Use a node with workers.");
      }
    }
  }

  void add(std::size_t vw, std::size_t k, const std::string& text) {
    problems_.add(places_.stage(vw, k), format("virtual worker %zu, stage %zu: ", vw, k) + text);
  }

  std::vector<std::string> device_names() const {
    std::vector<std::string> names;
    for (const DeviceName& device : cluster_->devices()) names.push_back(to_string(device));
    return names;
  }

  const Plan& plan_;
  const PlanPlaces& places_;
  const Cluster* cluster_;
  Problems& problems_;
  std::set<DeviceName> used_;
};

}  // namespace

void check_plan(const Plan& plan, const PlanPlaces& places, const Cluster* cluster, int layer_count,
                Problems& problems) {
  PlanCheck(plan, places, cluster, problems).run(layer_count);
}

}  // namespace hetpipe
