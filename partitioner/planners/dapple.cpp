// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/dapple_memory.h"
#include "partitioner/planners/dapple_search.h"
#include "partitioner/planners/likely_cuts.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr int kMostPositions = 16;
constexpr int kBatchesPerDevice = 4;   // of a minibatch that nobody gave
constexpr double kLatencyError = 0.7;  // simulated seconds by DAPPLE's, at least
constexpr double kAlike = 0.9;         // latencies between which simulation decides

// How the devices are handed out, and the minibatch.
struct Setting {
  int unit = 1;
  int devices = 1;  // that take part, a multiple of the unit
  int minibatch = 1;
  int micro_batches = 1;
};

class DapplePlanner {
 public:
  explicit DapplePlanner(const PlanRequest& request)
      : request_(request),
        placed_(placed_layers(request.profile)),
        nodes_(devices_by_node(request.cluster)) {
    for (const auto& node : nodes_) devices_ += static_cast<int>(node.size());
  }

  Plan plan() {
    // Of each setting the plan of the smallest latency. Of these again, or for a search the best by
    // simulation.
    const bool searching = request_.of_search;
    std::optional<Plan> best;
    double least = 0;
    double seconds = kInfinity;  // per sample: settings may differ in the minibatch
    for (const Setting& setting : settings()) {
      double found =
          setting.minibatch * (searching ? std::min(seconds / kAlike, enough(setting)) : seconds);
      std::optional<Plan> plan = plan_of(setting, found);
      if (!plan) continue;
      seconds = std::min(seconds, found / setting.minibatch);
      finish(request_, *plan, found);
      const double worth = searching ? request_.worth(*plan) : 1 / seconds;
      if (best && worth <= least) continue;
      best = std::move(plan);
      least = worth;
    }
    if (!best && request_.least_worth > 0 && shortage_.empty()) {
      throw UserError("",
                      format("none of its plans is worth %.4g samples/s", request_.least_worth));
    }
    if (!best) {
      throw UserError("",
                      "no plan of DAPPLE's fits the devices, even with recomputation" +
                          (shortage_.empty() ? "" : " (the nearest one lacks " + shortage_ + ")") +
                          ". Use a smaller --minibatch or more --micro-batches.");
    }
    return *best;
  }

 private:
  std::vector<Setting> settings() const {
    PlanRequest of_one = request_;
    of_one.micro_batches.reset();
    const int batch = default_minibatch(of_one);
    std::vector<Setting> result;
    std::set<int> units;
    for (int positions = 1; positions <= std::min(devices_, kMostPositions); ++positions) {
      const int unit = devices_ / positions;
      // Positions that leave devices over only where no other number of stages comes near.
      const bool even = devices_ % positions == 0;
      const bool power = (positions & (positions - 1)) == 0;
      if ((!even && !power) || !units.insert(unit).second) continue;
      const int used = unit * positions;
      if (request_.micro_batches) {
        const int m = *request_.micro_batches;
        const int minibatch = request_.minibatch.value_or(batch * m);
        check_slices(minibatch, m);
        result.push_back({unit, used, minibatch, m});
        continue;
      }
      int m = request_.minibatch.value_or(batch * kBatchesPerDevice * used) / (unit * batch);
      if (request_.minibatch) {
        m = std::max(1, m);
        while (*request_.minibatch % m != 0) --m;
      }
      result.push_back({unit, used, request_.minibatch.value_or(m * unit * batch), m});
    }
    return result;
  }

  // Seconds per sample at which a plan is worth what another one is already. Latencies may be
  // longer than what is simulated.
  double enough(const Setting& setting) const {
    if (request_.least_worth <= 0) return kInfinity;
    Plan plan = without_stages(setting);
    plan.virtual_workers.emplace_back();
    const double worth_of_one = request_.worth(plan, 1);
    return worth_of_one / (kLatencyError * request_.least_worth);
  }

  // The best plan of a setting, if its latency is less than `seconds`, which it replaces.
  std::optional<Plan> plan_of(const Setting& setting, double& seconds) {
    const int samples = setting.minibatch / setting.micro_batches;
    const DappleModel model = model_of(samples);
    const DapplePool pool = pool_of(setting.devices);
    Plan plan = without_stages(setting);
    DappleMemory memory(request_, placed_, plan, kinds_of_nodes());
    DappleRequest request;
    request.micro_batches = setting.micro_batches;
    request.unit = setting.unit;
    request.most_replicas = samples;
    request.settle_memory = [&](std::span<DappleStage> stages) { return memory.settle(stages); };
    request.give_up_at = seconds;
    if (request_.of_search) {
      request.effort = Effort::glance;
      request.cuts = likely_cuts_of(model);
    }
    const DapplePlan found = dapple_search(model, pool, request);
    if (found.stages.empty()) {
      if (const std::string shortage = memory.shortage(); !shortage.empty()) shortage_ = shortage;
      return std::nullopt;
    }
    add_stages(found, plan);
    ensure(memory_shortage(request_, plan).empty(), "the search respects the memory");
    seconds = found.seconds;
    return plan;
  }

  static std::vector<bool> likely_cuts_of(const DappleModel& model) {
    if (!many_more(model.layers(), kLikelyCuts)) return {};
    RunningSum seconds = model.forward[0];
    for (std::size_t l = 0; l < seconds.size(); ++l) seconds[l] += model.backward[0][l];
    std::vector<bool> cuts(seconds.size(), false);
    for (const int cut : likely_cuts(seconds, model.crossing_bytes, kLikelyCuts)) {
      cuts[static_cast<std::size_t>(cut)] = true;
    }
    return cuts;
  }

  DappleModel model_of(int samples) const {
    DappleModel model;
    const auto costs = costs_by_kind(request_, samples);
    const auto kinds = kinds_present(request_.cluster);
    const LayerCosts& any = *costs[static_cast<std::size_t>(kinds.front())];
    model.parameter_bytes.assign(1, 0);
    std::vector<LayerLoad> loads;
    const std::vector<std::int64_t> own = own_parameter_bytes(request_.profile);
    for (int p = 0; p < placed_.size(); ++p) {
      const auto layer = static_cast<std::size_t>(placed_.layers[static_cast<std::size_t>(p)]);
      const auto bytes = static_cast<double>(own[layer]);
      model.parameter_bytes.push_back(model.parameter_bytes.back() + bytes);
      loads.push_back({placed_.inputs[static_cast<std::size_t>(p)], 0, bytes,
                       static_cast<double>(any.output_bytes[layer])});
    }
    const PipedreamStates states = prefix_states(loads);
    model.crossing_bytes.assign(1, 0);
    model.crossing_bytes.insert(model.crossing_bytes.end(), states.output_bytes.begin(),
                                states.output_bytes.end() - 1);
    for (const int kind : kinds) {
      const LayerCosts& on = *costs[static_cast<std::size_t>(kind)];
      RunningSum forward{0};
      RunningSum backward{0};
      for (const int l : placed_.layers) {
        forward.push_back(forward.back() + on.forward[static_cast<std::size_t>(l)]);
        backward.push_back(backward.back() + on.backward[static_cast<std::size_t>(l)]);
      }
      model.forward.push_back(std::move(forward));
      model.backward.push_back(std::move(backward));
    }
    return model;
  }

  // The first devices, node by node; kinds counted among those present.
  DapplePool pool_of(int devices) const {
    const auto kinds = kinds_present(request_.cluster);
    const SlowestLinks links = slowest_links(request_.cluster);
    DapplePool pool;
    for (const auto& node : nodes_) {
      pool.nodes.emplace_back();
      for (const DeviceName& device : node) {
        if (devices-- <= 0) break;
        const auto kind =
            std::lower_bound(kinds.begin(), kinds.end(), kind_index(request_.cluster, device));
        pool.nodes.back().push_back(static_cast<int>(kind - kinds.begin()));
      }
    }
    pool.intra_bandwidth = links.within.bandwidth;
    pool.inter_bandwidth = links.across.bandwidth;
    pool.intra_latency = links.within.latency;
    pool.inter_latency = links.across.latency;
    return pool;
  }

  std::vector<std::vector<int>> kinds_of_nodes() const {
    std::vector<std::vector<int>> kinds;
    for (const auto& node : nodes_) {
      kinds.emplace_back();
      for (const DeviceName& device : node) {
        kinds.back().push_back(kind_index(request_.cluster, device));
      }
    }
    return kinds;
  }

  Plan without_stages(const Setting& setting) const {
    Plan plan = blank_plan(request_);
    plan.minibatch = setting.minibatch;
    plan.micro_batches = setting.micro_batches;
    plan.in_flight = request_.in_flight.value_or(1);
    if (traits(composition(request_).sync).waves()) plan.server = server_of(request_);
    return plan;
  }

  void add_stages(const DapplePlan& found, Plan& plan) const {
    PlanVirtualWorker vw;
    for (const DappleStage& stage : found.stages) {
      PlanStage planned;
      planned.first_layer = stage.first_layer == 0 ? 0 : placed_.end_layer(stage.first_layer);
      planned.end_layer = placed_.end_layer(stage.end_layer);
      planned.recompute = stage.recompute;
      for (const auto& run : stage.devices) {
        const auto first = nodes_[static_cast<std::size_t>(run.node)].begin() + run.begin;
        planned.devices.insert(planned.devices.end(), first, first + run.count);
      }
      vw.stages.push_back(std::move(planned));
    }
    plan.virtual_workers.push_back(std::move(vw));
    share_by_speed(request_, plan);
  }

  const PlanRequest& request_;
  PlacedLayers placed_;
  std::vector<std::vector<DeviceName>> nodes_;  // those that have devices
  int devices_ = 0;
  std::string shortage_;  // of the last setting that did not fit
};

}  // namespace

Plan plan_dapple(const PlanRequest& request) {
  check_request(request);
  refuse_virtual_workers(request, "DAPPLE's planner");
  return DapplePlanner(request).plan();
}

}  // namespace hetpipe
