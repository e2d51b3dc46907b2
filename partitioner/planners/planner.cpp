// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/planner.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/partition.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

constexpr double kGrowth = 1.01;  // what another minibatch in flight must bring
constexpr int kPatience = 2;      // values of Nm without growth: minibatches_held rises in steps
constexpr int kMostInFlight = 64;

void check_word(Problems& problems, const char* option, const char* what, const std::string& word,
                const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  problems.add(option,
               unknown(what, word, known) + ". Name one of these: " + join(known, ", ") + ".");
}

void check_count(Problems& problems, const char* option, int value, int least, int most) {
  if (value >= least && value <= most) return;
  problems.add(option, format("%d (must lie between %d and %d). Correct it.", value, least, most));
}

void check_request(const PlanRequest& request) {
  Problems problems;
  check_word(problems, "--system", "system", request.system, {"hetpipe"});
  if (request.policy) {
    check_word(problems, "--policy", "allocation policy", *request.policy, allocation_policies());
  }
  check_word(problems, "--placement", "placement", request.placement, {"default", "local"});
  check_word(problems, "--pull", "pull", request.pull, {"bound", "newest"});
  check_word(problems, "--optimizer", "optimizer", request.optimizer,
             {"sgd", "sgd-momentum", "adam"});
  check_count(problems, "--in-flight", request.in_flight.value_or(1), 1, 10000);
  check_count(problems, "--virtual-workers", request.virtual_workers.value_or(1), 1, 1 << 20);
  check_count(problems, "--minibatch", request.minibatch.value_or(1), 1, 1000000000);
  check_count(problems, "--micro-batches", request.micro_batches.value_or(1), 1, 10000);
  check_count(problems, "--clock-distance", request.clock_distance, 0, 10000);
  std::vector<std::string> nodes;
  for (const Node& node : request.cluster.nodes) nodes.push_back(node.name);
  for (const std::string& node : request.server_nodes) {
    check_word(problems, "--server-nodes", "node", node, nodes);
    if (std::count(request.server_nodes.begin(), request.server_nodes.end(), node) > 1) {
      problems.add("--server-nodes",
                   "node '" + node + "' stands twice (one shard each). Remove one.");
    }
  }
  problems.throw_if_any();
}

// Samples per minibatch so that a micro-batch is one that was measured, nearest to 32 in all.
int default_minibatch(const PlanRequest& request) {
  int best = 0;
  for (const Measurement& m : request.profile.measurements) {
    const int minibatch = m.batch * request.micro_batches.value_or(1);
    if (best == 0 || std::abs(minibatch - 32) < std::abs(best - 32) ||
        (std::abs(minibatch - 32) == std::abs(best - 32) && minibatch < best)) {
      best = minibatch;
    }
  }
  return best == 0 ? 32 * request.micro_batches.value_or(1) : best;
}

std::vector<std::string> default_server_nodes(const PlanRequest& request) {
  std::vector<std::string> without;
  std::vector<std::string> with;
  for (const Node& node : request.cluster.nodes) {
    (node.kinds.empty() ? without : with).push_back(node.name);
  }
  if (request.placement == "local") return with;
  if (!without.empty()) return without;
  with.resize(std::min<std::size_t>(with.size(), 1));
  return with;
}

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        micro_batches_(request.micro_batches.value_or(1)),
        minibatch_(request.minibatch.value_or(default_minibatch(request))) {
    if (minibatch_ % micro_batches_ != 0) {
      throw UserError("--minibatch",
                      format("%d does not divide into %d micro-batches (they are equal "
                             "slices of it). Change one.",
                             minibatch_, micro_batches_));
    }
    for (std::size_t kind = 0; kind < request.cluster.kinds.size(); ++kind) {
      speeds_.push_back(speed(static_cast<int>(kind)));
    }
  }

  Plan best_of_policies() const {
    const auto& policies =
        request_.policy ? std::vector<std::string>{*request_.policy} : allocation_policies();
    std::optional<Plan> best;
    std::vector<Problem> problems;
    for (const std::string& policy : policies) {
      try {
        const Plan plan =
            best_in_flight(allocate(request_.cluster, policy, speeds_, request_.virtual_workers));
        if (!best || plan.predicted->throughput > best->predicted->throughput * (1 + 1e-9))
          best = plan;
      } catch (const UserError& error) {
        for (const Problem& problem : error.problems()) {
          const std::string prefix = policies.size() > 1 ? "policy " + policy + ": " : "";
          problems.push_back({problem.where, prefix + problem.text});
        }
      }
    }
    if (!best) throw UserError(problems);
    return *best;
  }

 private:
  // Samples/s of the whole model on one device of a kind; kinds that no node has need no
  // measurement.
  double speed(int kind) const {
    const bool used = std::any_of(
        request_.cluster.nodes.begin(), request_.cluster.nodes.end(), [&](const Node& node) {
          return std::find(node.kinds.begin(), node.kinds.end(), kind) != node.kinds.end();
        });
    if (!used) return 0;
    const int micro_batch = minibatch_ / micro_batches_;
    const LayerCosts costs = costs_on(
        request_.profile, request_.cluster.kinds[static_cast<std::size_t>(kind)], micro_batch);
    double seconds = 0;
    for (std::size_t l = 0; l < costs.forward.size(); ++l)
      seconds += costs.forward[l] + costs.backward[l];
    return seconds > 0 ? micro_batch / seconds : 0;
  }

  Plan best_in_flight(const Allocation& allocation) const {
    if (request_.in_flight)
      return planned(cut(allocation, *request_.in_flight, {}), *request_.in_flight);
    std::vector<Partition> parts = cut(allocation, 1, {});
    Plan best = planned(parts, 1);
    for (int in_flight = 2, waited = 0; in_flight <= kMostInFlight && waited < kPatience;
         ++in_flight) {
      try {
        parts = cut(allocation, in_flight, parts);
      } catch (const UserError&) {
        break;  // memory has run out; the plan with fewer in flight stands
      }
      Plan plan = planned(parts, in_flight);
      if (plan.predicted->throughput >= best.predicted->throughput * kGrowth) {
        best = std::move(plan);
        waited = 0;
      } else {
        ++waited;
      }
    }
    return best;
  }

  // One cut per virtual worker; alike ones are searched once. A larger Nm only needs more memory,
  // so that the best cut for a smaller one stays the best while it fits.
  std::vector<Partition> cut(const Allocation& allocation, int in_flight,
                             const std::vector<Partition>& before) const {
    std::map<std::vector<std::pair<std::string, int>>, Partition>
        known;  // (node, kind) of the devices
    std::vector<Partition> result;
    for (std::size_t vw = 0; vw < allocation.size(); ++vw) {
      PartitionRequest request = partition_request(allocation[vw], in_flight);
      if (!before.empty()) {
        Partition same = evaluate_partition(request_.cluster, request_.profile, request,
                                            before[vw].devices, before[vw].ends);
        if (fits(request_.cluster, same)) {
          result.push_back(std::move(same));
          continue;
        }
      }
      std::vector<std::pair<std::string, int>> key;
      for (const DeviceName& device : allocation[vw])
        key.emplace_back(device.node, kind_index(device));
      const auto at = known.find(key);
      if (at == known.end()) {
        result.push_back(partition(request_.cluster, request_.profile, request));
        known.emplace(std::move(key), result.back());
      } else {
        result.push_back(renamed(at->second, request, allocation[vw]));
      }
    }
    return result;
  }

  // The same cut on the devices of another virtual worker with the same kinds on the same nodes.
  Partition renamed(const Partition& known, const PartitionRequest& request,
                    std::vector<DeviceName> free) const {
    std::vector<DeviceName> order;
    for (const DeviceName& device : known.devices) {
      const auto at = std::find_if(free.begin(), free.end(), [&](const DeviceName& other) {
        return other.node == device.node && kind_index(other) == kind_index(device);
      });
      ensure(at != free.end(), "alike virtual workers have alike devices");
      order.push_back(*at);
      free.erase(at);
    }
    return evaluate_partition(request_.cluster, request_.profile, request, std::move(order),
                              known.ends);
  }

  int kind_index(const DeviceName& device) const {
    return static_cast<int>(&request_.cluster.kind_of(device) - request_.cluster.kinds.data());
  }

  PartitionRequest partition_request(const std::vector<DeviceName>& devices, int in_flight) const {
    PartitionRequest request;
    request.devices = devices;
    request.minibatch = minibatch_;
    request.micro_batches = micro_batches_;
    request.in_flight = in_flight;
    request.optimizer = request_.optimizer;
    request.server = true;
    request.clock_distance = request_.clock_distance;
    return request;
  }

  Plan planned(const std::vector<Partition>& parts, int in_flight) const {
    Plan plan;
    plan.system = request_.system;
    plan.model = request_.profile.model;
    plan.minibatch = minibatch_;
    plan.micro_batches = micro_batches_;
    plan.in_flight = in_flight;
    plan.optimizer = request_.optimizer;
    Prediction prediction;
    for (const Partition& part : parts) {
      PlanVirtualWorker vw;
      for (std::size_t k = 0; k < part.devices.size(); ++k) {
        const PartCost& cost = part.costs[k];
        const double slices = micro_batches_;
        PlanStage stage;
        stage.first_layer = k == 0 ? 0 : part.ends[k - 1];
        stage.end_layer = part.ends[k];
        stage.devices = {part.devices[k]};
        stage.predicted = StagePrediction{
            cost.forward_seconds / slices, cost.backward_seconds / slices,
            (cost.receive_activations_seconds + cost.receive_gradients_seconds) / slices,
            part.ledgers[k].total()};
        vw.stages.push_back(std::move(stage));
      }
      plan.virtual_workers.push_back(std::move(vw));
      prediction.bottleneck = std::max(prediction.bottleneck, part.bottleneck);
    }
    PlanServer server;
    server.nodes =
        request_.server_nodes.empty() ? default_server_nodes(request_) : request_.server_nodes;
    server.clock_distance = request_.clock_distance;
    server.placement = request_.placement;
    server.pull = request_.pull;
    plan.server = std::move(server);
    prediction.throughput = simulate(plan, request_.cluster, request_.profile).throughput;
    prediction.cluster_hash = to_hex(hash_text(to_toml(request_.cluster)));
    prediction.profile_hash = to_hex(hash_text(to_toml(request_.profile)));
    plan.predicted = std::move(prediction);
    return plan;
  }

  const PlanRequest& request_;
  int micro_batches_;
  int minibatch_;
  std::vector<double> speeds_;  // [kind]
};

}  // namespace

Plan plan_hetpipe(const PlanRequest& request) {
  check_request(request);
  return Planner(request).best_of_policies();
}

}  // namespace hetpipe
