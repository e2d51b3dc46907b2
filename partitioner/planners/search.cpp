// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/search_bound.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

constexpr std::size_t kImproved = 2;      // plans that improve() starts from
constexpr std::size_t kLeftOutKinds = 4;  // of left-out devices that are tried again
constexpr std::int64_t kBaseActions = 250'000;
constexpr std::int64_t kActionsPerDevice = 20'000;
constexpr std::int64_t kExactActions = 20'000'000;

class Search {
 public:
  Search(const PlanRequest& request, const SearchOptions& options,
         const std::vector<SeedPlanner>& seeds)
      : request_(fixed_minibatch(request)),
        options_(options),
        seeds_(seeds),
        devices_(request.cluster.devices()),
        rows_(search_rows(request_, options.systems)),
        budget_(options.actions > 0 ? options.actions
                                    : kBaseActions + kActionsPerDevice * static_cast<std::int64_t>(
                                                                             devices_.size())) {
    for (std::size_t kind = 0; kind < request.cluster.kinds.size(); ++kind) {
      speeds_.push_back(speed(static_cast<int>(kind)));
    }
  }

  SearchResult run() {
    for (const SearchRow& row : rows_) look_at(row);
    const Found* best = choose();
    if (best == nullptr) nothing_runs();
    SearchResult result;
    result.plan = best->scored.plan;
    result.bound = throughput_bound(request_.cluster, request_.profile, *request_.minibatch);
    result.exact = exact_;
    result.left_out = left_out(*best);
    foretell(result.plan);
    result.considered = considered();
    result.simulations = simulations_;
    result.actions = actions_;
    return result;
  }

 private:
  struct Found {
    ScoredPlan scored;
    std::size_t row = 0;
  };

  // Plans of different systems are compared at one minibatch of a virtual worker.
  static PlanRequest fixed_minibatch(PlanRequest request) {
    check_request(request);
    if (!request.minibatch) request.minibatch = default_minibatch(request);
    request.policy.reset();
    return request;
  }

  double speed(int kind) const {
    const bool used = std::any_of(
        request_.cluster.nodes.begin(), request_.cluster.nodes.end(), [&](const Node& node) {
          return std::find(node.kinds.begin(), node.kinds.end(), kind) != node.kinds.end();
        });
    if (!used) return 0;
    const LayerCosts costs =
        costs_on(request_.profile, request_.cluster.kinds[static_cast<std::size_t>(kind)],
                 *request_.minibatch);
    double seconds = 0;
    for (std::size_t l = 0; l < costs.forward.size(); ++l) {
      seconds += costs.forward[l] + costs.backward[l];
    }
    return *request_.minibatch / std::max(seconds, 1e-12);
  }

  void look_at(const SearchRow& row) {
    const std::size_t index = spaces_.size();
    spaces_.push_back(std::make_unique<SearchSpace>(row, options_, *request_.minibatch));
    SearchSpace& space = *spaces_.back();
    const bool small = devices_.size() <= 4 && request_.profile.layers.size() <= 6;
    PlanScores scores(request_.cluster, request_.profile, small ? kExactActions : budget_);
    FoundPlans found(scores);
    seed(row, found);
    const bool all = try_all_plans(space, scores, found);
    exact_ = exact_ && all;
    if (!all) {
      search_compositions(space, scores, found, speeds_);
      std::vector<ScoredPlan> starts = found.all();
      std::stable_sort(starts.begin(), starts.end(),
                       [](const auto& a, const auto& b) { return a.throughput > b.throughput; });
      if (starts.size() > kImproved) starts.resize(kImproved);
      for (const ScoredPlan& start : starts) improve(space, scores, found, start, speeds_);
    }
    for (const ScoredPlan& plan : found.all()) found_.push_back({plan, index});
    if (found.all().empty()) why_not_.push_back(row.request.system + ": " + scores.why_not());
    simulations_ += scores.simulations();
    actions_ += scores.actions();
  }

  // The plans of the others, as they are.
  void seed(const SearchRow& row, FoundPlans& found) {
    const auto take = [&](const std::string& name, const std::function<Plan()>& make) {
      try {
        const Plan plan = make();
        if (found.add(plan, name)) {
          seeds_best_ = std::max(seeds_best_, found.all().back().throughput);
        }
      } catch (const UserError& error) {
        refused_.push_back({name, row.request.system, 0, error.what()});
      }
    };
    if (row.parts.schedule == ScheduleRule::continuous_1f1b) {
      for (const std::string& policy : allocation_policies()) {
        PlanRequest request = row.request;
        request.policy = policy;
        take(policy, [&] { return make_plan(request); });
      }
    }
    const PlannerRule planner = planner_of(row.request);
    if (planner != PlannerRule::search && planner != PlannerRule::hetpipe) {
      take(row.request.system + "'s planner", [&] { return make_plan(row.request); });
    }
    for (const SeedPlanner& other : seeds_) {
      take(other.name, [&] { return other.plan(row.request); });
    }
  }

  // Of the plans within 1 % of the best and no slower than any seed, the one of least staleness.
  const Found* choose() const {
    double best = 0;
    for (const Found& found : found_) best = std::max(best, found.scored.throughput);
    const double least = std::max(best * (1 - kWorthIt), seeds_best_);
    const Found* chosen = nullptr;
    const auto rank = [](const Found& found) {
      const Plan& plan = found.scored.plan;
      return std::tuple(staleness_of(plan), plan.server ? plan.server->clock_distance : 0,
                        -found.scored.throughput);
    };
    for (const Found& found : found_) {
      if (found.scored.throughput < least) continue;
      if (chosen == nullptr || rank(found) < rank(*chosen)) chosen = &found;
    }
    return chosen;
  }

  // What each idle device would bring: the best of the plans that use it, those tried for this
  // purpose among them.
  std::vector<LeftOut> left_out(const Found& chosen) {
    std::set<DeviceName> used;
    Allocation composition;
    for (const PlanVirtualWorker& worker : chosen.scored.plan.virtual_workers) {
      composition.emplace_back();
      for (const PlanStage& stage : worker.stages) {
        used.insert(stage.devices.begin(), stage.devices.end());
        composition.back().insert(composition.back().end(), stage.devices.begin(),
                                  stage.devices.end());
      }
    }
    SearchSpace& space = *spaces_[chosen.row];
    PlanScores scores(request_.cluster, request_.profile, budget_);
    const Knobs knobs = space.knobs_of(chosen.scored.plan);
    std::map<std::pair<std::string, std::string>, std::optional<double>> known;  // (node, kind)
    std::vector<LeftOut> result;
    for (const DeviceName& device : devices_) {
      if (used.contains(device)) continue;
      const auto [change, is_new] = known.emplace(
          std::pair(device.node, request_.cluster.kind_of(device).name), std::nullopt);
      if (is_new) {
        double best = 0;
        for (const Found& found : found_) {
          if (uses_as_well(found.scored.plan, chosen.scored.plan, device)) {
            best = std::max(best, found.scored.throughput);
          }
        }
        std::set<std::string> seen;
        const auto look = [&](Allocation more) {
          if (!seen.insert(composition_key(request_.cluster, more)).second) return;
          if (const auto plan = space.plan(more, knobs)) {
            best = std::max(best, scores.throughput(*plan).value_or(0));
          }
        };
        if (known.size() <= kLeftOutKinds) {
          for (std::size_t vw = 0; vw < composition.size() && seen.size() < 4; ++vw) {
            if (scores.spent()) break;
            Allocation more = composition;
            more[vw].push_back(device);
            look(std::move(more));
          }
          Allocation more = composition;
          more.push_back({device});
          if (!request_.virtual_workers) look(std::move(more));
        }
        if (best > 0) change->second = best / chosen.scored.throughput - 1;
      }
      result.push_back({device, change->second});
    }
    simulations_ += scores.simulations();
    actions_ += scores.actions();
    return result;
  }

  // Every device of the chosen plan, and this one.
  static bool uses_as_well(const Plan& plan, const Plan& chosen, const DeviceName& device) {
    std::set<DeviceName> used;
    for (const PlanVirtualWorker& worker : plan.virtual_workers) {
      for (const PlanStage& stage : worker.stages) {
        used.insert(stage.devices.begin(), stage.devices.end());
      }
    }
    if (!used.contains(device)) return false;
    for (const PlanVirtualWorker& worker : chosen.virtual_workers) {
      for (const PlanStage& stage : worker.stages) {
        for (const DeviceName& other : stage.devices) {
          if (!used.contains(other)) return false;
        }
      }
    }
    return true;
  }

  // Stage by stage what the planner foretells, as the other planners do.
  void foretell(Plan& plan) {
    Prediction prediction;
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      auto& stages = plan.virtual_workers[vw].stages;
      const VirtualWorkerId id{static_cast<int>(vw)};
      const bool whole = std::all_of(stages.begin(), stages.end(),
                                     [](const PlanStage& s) { return s.devices.size() == 1; });
      if (!whole) continue;  // a replicated stage's times are its own planner's
      const Partition part = evaluate_plan(request_.cluster, request_.profile, plan, id);
      for (std::size_t k = 0; k < stages.size(); ++k) {
        const PartCost& cost = part.costs[k];
        const double slices = plan.micro_batches;
        stages[k].predicted = StagePrediction{
            cost.forward_seconds / slices, cost.backward_seconds / slices,
            (cost.receive_activations_seconds + cost.receive_gradients_seconds) / slices,
            stage_ledger(plan, request_.cluster, request_.profile, id, StageId{static_cast<int>(k)})
                .total()};
      }
      prediction.bottleneck = std::max(prediction.bottleneck, part.bottleneck);
    }
    if (plan.predicted && prediction.bottleneck == 0) {
      prediction.bottleneck = plan.predicted->bottleneck;
    }
    plan.predicted = prediction;
    predict(request_, plan);
  }

  // The best plan of every origin, number of virtual workers and system, best first.
  std::vector<SearchCandidate> considered() const {
    std::map<std::tuple<std::string, std::string, std::size_t>, const ScoredPlan*> best;
    for (const Found& found : found_) {
      const ScoredPlan*& plan = best[{found.scored.origin, found.scored.plan.system,
                                      found.scored.plan.virtual_workers.size()}];
      if (plan == nullptr || found.scored.throughput > plan->throughput) plan = &found.scored;
    }
    std::vector<SearchCandidate> result;
    for (const auto& [key, plan] : best) {
      result.push_back({plan->origin, describe(plan->plan), plan->throughput, ""});
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& a, const auto& b) { return a.throughput > b.throughput; });
    result.insert(result.end(), refused_.begin(), refused_.end());
    return result;
  }

  [[noreturn]] void nothing_runs() const {
    std::string text = "no plan was found that fits and runs (the planners' reasons follow).";
    for (const SearchCandidate& candidate : refused_) {
      text += "\n  " + candidate.origin + ": " + candidate.why_not;
    }
    for (const std::string& why : why_not_) text += "\n  " + why;
    text += "\nUse a smaller minibatch, or more or larger devices.";
    throw UserError("", text);
  }

  PlanRequest request_;
  SearchOptions options_;
  const std::vector<SeedPlanner>& seeds_;
  std::vector<DeviceName> devices_;
  std::vector<SearchRow> rows_;
  std::int64_t budget_;                               // of each row
  std::vector<double> speeds_;                        // [kind], samples/s
  std::vector<std::unique_ptr<SearchSpace>> spaces_;  // [row]
  std::vector<Found> found_;
  std::vector<SearchCandidate> refused_;
  std::vector<std::string> why_not_;
  double seeds_best_ = 0;
  bool exact_ = true;
  std::int64_t simulations_ = 0;
  std::int64_t actions_ = 0;
};

}  // namespace

SearchResult search_plans(const PlanRequest& request, const SearchOptions& options,
                          const std::vector<SeedPlanner>& seeds) {
  return Search(request, options, seeds).run();
}

Plan plan_search(const PlanRequest& request) { return search_plans(request).plan; }

}  // namespace hetpipe
