// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/planner.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/stage_times.h"

namespace hetpipe {

// By Nm and the devices' (node, kind).
struct SharedCuts {
  std::map<int, std::map<std::vector<std::pair<std::string, int>>, Partition>> of;
};

std::shared_ptr<SharedCuts> share_cuts() { return std::make_shared<SharedCuts>(); }

namespace {

constexpr int kPatience = 2;  // values of Nm without growth: minibatches_held rises in steps

class Planner {
 public:
  explicit Planner(const PlanRequest& request)
      : request_(request),
        system_(composition(request)),
        micro_batches_(request.micro_batches.value_or(1)),
        minibatch_(request.minibatch.value_or(default_minibatch(request))),
        tables_(tables_of(request)) {
    check_slices(minibatch_, micro_batches_);
    speeds_ = kind_speeds(request, minibatch_ / micro_batches_);
  }

  Plan best_of_policies() const {
    const auto& policies =
        request_.policy ? std::vector<std::string>{*request_.policy} : allocation_policies();
    std::optional<Plan> best;
    std::vector<Problem> problems;
    for (const std::string& policy : policies) {
      try {
        const Plan plan =
            best_in_flight(allocate(request_.cluster, policy, speeds_, request_.virtual_workers),
                           "policy " + policy);
        if (!best || request_.worth(plan) > request_.worth(*best) * (1 + 1e-9)) best = plan;
      } catch (const UserError& error) {
        for (const Problem& problem : error.problems()) {
          const bool named = problem.text.starts_with("policy " + policy);
          const std::string prefix = policies.size() > 1 && !named ? "policy " + policy + ": " : "";
          problems.push_back({problem.where, prefix + problem.text});
        }
      }
    }
    if (!best) throw UserError(problems);
    if (!request_.of_search) note_inputs(request_, *best);
    return *best;
  }

 private:
  void say(const std::string& what, int in_flight) const {
    if (!request_.progress) return;
    request_.progress(format("%s, %d minibatch%s in flight", what.c_str(), in_flight,
                             in_flight == 1 ? "" : "es"));
  }

  Plan best_in_flight(const Allocation& allocation, const std::string& what) const {
    say(what, request_.in_flight.value_or(1));
    if (request_.in_flight)
      return planned(cut(allocation, *request_.in_flight, {}), *request_.in_flight);
    std::vector<Partition> parts = cut(allocation, 1, {});
    give_up_below(parts);
    Plan best = planned(parts, 1);
    for (int in_flight = 2, waited = 0; in_flight <= kMostInFlight && waited < kPatience;
         ++in_flight) {
      Plan plan;
      say(what, in_flight);
      try {
        parts = cut(allocation, in_flight, parts);
        plan = planned(parts, in_flight);
      } catch (const UserError&) {
        break;  // memory has run out; the plan with fewer in flight stands
      }
      if (request_.worth(plan) >= request_.worth(best) * kGrowth) {
        best = std::move(plan);
        waited = 0;
      } else {
        ++waited;
      }
    }
    return best;
  }

  // However many are in flight, a virtual worker's slowest stage computes each minibatch.
  void give_up_below(const std::vector<Partition>& parts) const {
    if (request_.least_worth <= 0) return;
    double seconds = 0;
    Plan plan = blank_plan(request_);
    plan.minibatch = minibatch_;
    if (traits(system_.sync).waves()) plan.server = server_of(request_);
    for (const Partition& part : parts) {
      plan.virtual_workers.emplace_back();
      for (const PartCost& cost : part.costs) {
        seconds = std::max(seconds, cost.forward_seconds + cost.backward_seconds);
      }
    }
    const double most =
        request_.worth(plan, static_cast<double>(parts.size()) * minibatch_ / seconds);
    if (most >= request_.least_worth) return;
    throw UserError("", format("its partition cannot be worth more than %.4g samples/s", most));
  }

  // One cut per virtual worker; alike ones are searched once. A larger Nm only needs more memory,
  // so that the best cut for a smaller one stays the best while it fits.
  std::vector<Partition> cut(const Allocation& allocation, int in_flight,
                             const std::vector<Partition>& before) const {
    SharedCuts own;
    auto& known = (request_.shared_cuts ? *request_.shared_cuts : own).of[in_flight];
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
    request.tables = tables_;
    request.minibatch = minibatch_;
    request.micro_batches = micro_batches_;
    request.in_flight = in_flight;
    const std::string optimizer = optimizer_of(request_);
    request.optimizer = optimizer_of_stages(system_, optimizer);
    request.updates = updates_of(system_, optimizer);
    request.server = traits(system_.sync).waves();
    request.average = request_.ema > 0 && !request.server;
    request.clock_distance = clock_distance_of(request_);
    request.work = request_.partition_work;
    request.halves_pushes = request.server && server_of(request_).halves_pushes();
    request.round = request.server ? server_of(request_).round : 1;
    return request;
  }

  Plan planned(const std::vector<Partition>& parts, int in_flight) const {
    Plan plan = blank_plan(request_);
    plan.minibatch = minibatch_;
    plan.micro_batches = micro_batches_;
    plan.in_flight = in_flight;
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
            (cost.receive_activations_seconds + cost.receive_gradients_seconds) / slices, 0};
        vw.stages.push_back(std::move(stage));
      }
      plan.virtual_workers.push_back(std::move(vw));
      prediction.bottleneck = std::max(prediction.bottleneck, part.bottleneck);
    }
    if (traits(system_.sync).waves()) plan.server = server_of(request_);
    // How long a round is, and so what exchanges cost, is decided for the finished plan.
    SimulationRequest how;
    how.exchanges = request_.round || !traits(system_.sync).rounds;
    if (!how.exchanges) plan.server->round = 1;
    CostTable costs(request_.cluster, request_.profile, updates_of(plan), tables_);
    how.costs = &costs;
    const Simulation simulation = simulate(plan, request_.cluster, request_.profile, how);
    prediction.throughput = simulation.throughput;
    prediction.label_age = label_age(plan, simulation);
    plan.predicted = std::move(prediction);
    note_memory(simulation, plan);
    return plan;
  }

  // The cut was made by HetPipe's ledger, of one micro-batch in each minibatch; the plan's own is
  // another where its weights, its sync or its micro-batches are. UserError where that is too much.
  void note_memory(const Simulation& simulation, Plan& plan) const {
    for (const SimulatedStage& of : simulation.stages) {
      PlanStage& stage = plan.virtual_workers[static_cast<std::size_t>(of.virtual_worker)]
                             .stages[static_cast<std::size_t>(of.stage)];
      stage.predicted->memory = of.memory;
      const DeviceKind& kind = request_.cluster.kind_of(of.device);
      if (of.memory <= kind.for_plans()) continue;
      throw UserError(
          "",
          format(
              "the partition for %d minibatches in flight does not fit with %s: layers [%d, %d] "
              "need %s, %s (%s) has %s. Use a smaller --minibatch, fewer --in-flight, or --policy "
              "search.",
              plan.in_flight, plan.system.c_str(), stage.first_layer, stage.end_layer,
              format_bytes(static_cast<double>(of.memory)).c_str(), to_string(of.device).c_str(),
              kind.name.c_str(), memory_for_plans(kind).c_str()));
    }
  }

  const PlanRequest& request_;
  System system_;
  int micro_batches_;
  int minibatch_;
  std::shared_ptr<ModelTables> tables_;
  std::vector<double> speeds_;  // [kind]
};

}  // namespace

Plan plan_hetpipe(const PlanRequest& request) {
  check_request(request);
  ensure(traits(composition(request).schedule).chooses_in_flight,
         "HetPipe's planner is for pipelines that are never flushed");
  return Planner(request).best_of_policies();
}

}  // namespace hetpipe
