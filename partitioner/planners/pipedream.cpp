// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/likely_cuts.h"
#include "partitioner/planners/pipedream_cut.h"
#include "partitioner/planners/pipedream_memory.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// Beyond that many devices on one level, they are handed out in equal bundles.
constexpr int kMostGroups = 128;
constexpr std::array kSlowerLinks{1.0, 2.5, 6.0};

class PipedreamPlanner {
 public:
  explicit PipedreamPlanner(const PlanRequest& request)
      : request_(request),
        placed_(placed_layers(request.profile)),
        nodes_(devices_by_node(request.cluster)) {
    PlanRequest of_one = request;
    of_one.micro_batches.reset();
    batch_ = request.minibatch.value_or(default_minibatch(of_one));
    check_slices(batch_, request.micro_batches.value_or(1));
    price();
  }

  // The best of a few plans by simulated throughput: the objective of the optimizer knows nothing
  // of messages that share an interface, so that cuts made for slower links are often faster.
  Plan plan() {
    std::optional<Plan> best;
    double least = 0;
    std::vector<std::vector<PlanVirtualWorker>> seen;
    std::optional<double> objective;  // its optimum, for links as they are
    const bool once = !request_.of_search;
    for (const double slower : kSlowerLinks) {
      slower_ = slower;
      std::optional<Plan> plan = cut();
      if (!plan) continue;
      if (std::find(seen.begin(), seen.end(), plan->virtual_workers) != seen.end()) continue;
      seen.push_back(plan->virtual_workers);
      if (!objective) objective = objective_;
      finish(request_, *plan, *objective);
      const double worth = request_.worth(*plan);
      if (!best || worth > least) {
        best = std::move(plan);
        least = worth;
      }
      if (once) break;
    }
    if (best) return *best;
    throw UserError("", "no plan of PipeDream's fits the devices (" + shortage_ +
                            "). Use a smaller --minibatch, or a planner that takes each device's "
                            "memory into account: --policy search.");
  }

 private:
  // The model as every device sees it: the slowest kind's times, per layer.
  void price() {
    const auto costs = costs_by_kind(request_, batch_);
    const auto kinds = kinds_present(request_.cluster);
    const std::vector<std::int64_t> own = own_parameter_bytes(request_.profile);
    std::vector<LayerLoad> loads;
    for (int p = 0; p < placed_.size(); ++p) {
      const auto layer = static_cast<std::size_t>(placed_.layers[static_cast<std::size_t>(p)]);
      LayerLoad load;
      load.inputs = placed_.inputs[static_cast<std::size_t>(p)];
      for (const int kind : kinds) {
        const LayerCosts& on = *costs[static_cast<std::size_t>(kind)];
        load.seconds = std::max(load.seconds, on.forward[layer] + on.backward[layer]);
        load.output_bytes = static_cast<double>(on.output_bytes[layer]);
      }
      load.parameter_bytes = static_cast<double>(own[layer]);
      loads.push_back(std::move(load));
    }
    states_ = prefix_states(loads);
    if (request_.of_search) states_ = likely_states(states_, kLikelyCuts);
  }

  int end_of(int state) const {  // one past its last layer, in the profile
    return placed_.end_layer(
        static_cast<int>(states_.layers[static_cast<std::size_t>(state)].size()));
  }

  std::optional<Plan> cut() {
    const bool levelled = std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
      return node.size() == nodes_[0].size();
    });
    std::optional<Plan> plan;
    if (levelled) plan = by_levels();
    if (!plan) plan = flat(std::nullopt);
    // Less in flight needs less memory; the cut is made for it.
    for (const int in_flight : {16, 12, 8, 6, 4, 3, 2, 1}) {
      if (plan) break;
      if (request_.in_flight && *request_.in_flight < in_flight) continue;
      plan = flat(in_flight);
    }
    return plan;
  }

  // Devices of a node, and nodes.
  std::optional<Plan> by_levels() {
    const SlowestLinks links = slowest_links(request_.cluster);
    PipedreamRequest request;
    request.levels = {{static_cast<int>(nodes_[0].size()), links.within.bandwidth / slower_},
                      {static_cast<int>(nodes_.size()), links.across.bandwidth / slower_}};
    request.spare = SpareDevices::may_rest;
    const PipedreamCut cut = pipedream_cut(states_, request);
    objective_ = cut.seconds;
    PlanVirtualWorker vw;
    std::size_t first_node = 0;    // of the outer stage
    std::size_t nodes = 0;         // of the outer stage
    std::size_t first_device = 0;  // of each of these nodes
    for (std::size_t k = 0; k < cut.stages.size(); ++k) {
      const PipedreamStage& stage = cut.stages[k];
      if (k > 0 && stage.outer != cut.stages[k - 1].outer) {
        first_node += nodes;
        first_device = 0;
      }
      nodes = static_cast<std::size_t>(stage.per_level[1]);
      const auto replicas = static_cast<std::size_t>(stage.per_level[0]);
      PlanStage planned = stage_of(stage);
      for (std::size_t n = first_node; n < first_node + nodes; ++n) {
        for (std::size_t d = first_device; d < first_device + replicas; ++d) {
          planned.devices.push_back(nodes_[n][d]);
        }
      }
      first_device += replicas;
      vw.stages.push_back(std::move(planned));
    }
    return checked(std::move(vw), std::nullopt);
  }

  // One level of all devices. With `in_flight`: stages that fit with so many minibatches.
  std::optional<Plan> flat(std::optional<int> in_flight) {
    std::vector<DeviceName> devices;
    for (const auto& node : nodes_) devices.insert(devices.end(), node.begin(), node.end());
    const SlowestLinks links = slowest_links(request_.cluster);
    const int count = static_cast<int>(devices.size());
    const int bundle = (count + kMostGroups - 1) / kMostGroups;
    const Link& link = nodes_.size() == 1 ? links.within : links.across;
    // A bundle counts as one device that does everything `bundle` times as fast.
    PipedreamStates states = states_;
    for (auto* sums : {&states.seconds, &states.parameter_bytes, &states.output_bytes}) {
      for (double& value : *sums) value /= bundle;
    }
    PipedreamRequest request;
    request.levels = {{count / bundle, link.bandwidth / slower_}};
    request.spare = SpareDevices::may_rest;
    if (request_.minibatch) {
      request.most_replicas = std::max(1, batch_ / request_.micro_batches.value_or(1) / bundle);
    }
    std::optional<PipedreamMemory> memory;
    if (in_flight) {
      memory.emplace(request_, without_stages(*in_flight), batch_, *in_flight);
      request.most_behind = [&, bundle](int after, int state, int replicas) {
        return memory->most_behind(after < 0 ? 0 : end_of(after), end_of(state), replicas * bundle);
      };
    }
    const PipedreamCut cut = pipedream_cut(states, request);
    if (cut.stages.empty()) return std::nullopt;
    objective_ = cut.seconds;
    PlanVirtualWorker vw;
    std::size_t next = 0;
    for (const PipedreamStage& stage : cut.stages) {
      PlanStage planned = stage_of(stage);
      const std::size_t take = static_cast<std::size_t>(stage.replicas * bundle);
      planned.devices.assign(devices.begin() + static_cast<std::ptrdiff_t>(next),
                             devices.begin() + static_cast<std::ptrdiff_t>(next + take));
      next += take;
      vw.stages.push_back(std::move(planned));
    }
    return checked(std::move(vw), in_flight);
  }

  PlanStage stage_of(const PipedreamStage& stage) const {
    PlanStage planned;
    planned.first_layer = stage.after < 0 ? 0 : end_of(stage.after);
    planned.end_layer = end_of(stage.state);
    return planned;
  }

  // Everything of a plan but its stages and its minibatch.
  Plan without_stages(int in_flight) const {
    Plan plan = blank_plan(request_);
    plan.micro_batches = request_.micro_batches.value_or(1);
    plan.in_flight = request_.in_flight.value_or(in_flight);
    if (traits(composition(request_).sync).waves()) plan.server = server_of(request_);
    return plan;
  }

  // The plan of these stages, if all have the memory and every replica a sample.
  std::optional<Plan> checked(PlanVirtualWorker vw, std::optional<int> in_flight) {
    int most = 1;
    for (const PlanStage& stage : vw.stages) {
      most = std::max(most, static_cast<int>(stage.devices.size()));
    }
    const int stages = static_cast<int>(vw.stages.size());
    Plan plan = without_stages(std::min(stages, in_flight.value_or(stages)));
    plan.virtual_workers.push_back(std::move(vw));
    // A batch for each replica of the widest stage; a minibatch that was given stays as it is.
    plan.minibatch = request_.minibatch ? batch_ : batch_ * most;
    if (plan.minibatch / plan.micro_batches < most) {
      shortage_ = format("a micro-batch of %d samples cannot be split over %d replicas",
                         plan.minibatch / plan.micro_batches, most);
      return std::nullopt;
    }
    share_by_speed(request_, plan);
    std::string shortage = memory_shortage(request_, plan);
    if (!shortage.empty() && !request_.minibatch && batch_ >= most) {
      plan.minibatch = batch_;
      share_by_speed(request_, plan);
      shortage = memory_shortage(request_, plan);
    }
    if (shortage.empty()) return plan;
    shortage_ = shortage;
    return std::nullopt;
  }

  const PlanRequest& request_;
  PlacedLayers placed_;
  std::vector<std::vector<DeviceName>> nodes_;  // those that have devices
  int batch_ = 1;                               // samples of a worker's minibatch
  PipedreamStates states_;
  double slower_ = 1;  // links than they are, for the cut at hand
  double objective_ = 0;
  std::string shortage_;
};

}  // namespace

Plan plan_pipedream(const PlanRequest& request) {
  check_request(request);
  refuse_virtual_workers(request, "PipeDream's planner");
  return PipedreamPlanner(request).plan();
}

}  // namespace hetpipe
