// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_score.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/search_key.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

// Where links are crowded, sharing them out is most of the work.
constexpr std::int64_t kRatesPerAction = 8;
constexpr int kFewMinibatches = 3;                // the second and the third tell the pace
constexpr std::int64_t kMostRates = 100'000'000;  // of a plan that nobody has to look at
std::int64_t work_of(const Simulation& simulation) {
  return simulation.actions + simulation.rates / kRatesPerAction;
}

std::string server_key(const Plan& plan) {
  if (!plan.server) return "";
  std::string key =
      "/D" +
      key_of({plan.server->clock_distance, plan.server->round, plan.server->pulls_newest()}) +
      plan.server->placement + '/' + plan.server->push_precision;
  for (const std::string& node : plan.server->nodes) key += '/' + node;
  return key;
}

// The parts of a plan that all its virtual workers share.
std::string common_key(const Plan& plan) {
  return plan.system + '/' + plan.schedule + '/' + plan.weights + '/' + plan.sync + '/' +
         key_of({plan.minibatch, plan.micro_batches, plan.in_flight}) + plan.optimizer +
         server_key(plan);
}

// Of these what its times hang on: systems that differ in the versions of weights alone take
// equally long.
std::string common_timing_key(const Plan& plan) {
  const System system = composition(plan);
  const WeightTraits& weights = traits(system.weights);
  return key_of({static_cast<int>(system.schedule), static_cast<int>(system.sync),
                 weights.update_by_wave, weights.recomputes, static_cast<int>(updates_of(plan)),
                 plan.minibatch, plan.micro_batches, plan.in_flight}) +
         server_key(plan);
}

// Virtual workers with the same key have the same kinds on nodes that hang together in the same
// way: nodes are numbered as they come, but named where a rule or a server may know them.
class WorkerKeys {
 public:
  WorkerKeys(const Cluster& cluster, const Plan& plan)
      : cluster_(cluster),
        named_(plan.server ||
               std::any_of(cluster.between.begin(), cluster.between.end(),
                           [](const LinkBetween& rule) { return !rule.nodes.empty(); })) {}

  std::string of(const PlanVirtualWorker& worker) {
    std::string key = '|' + std::to_string(worker.minibatch.value_or(0));
    for (const PlanStage& stage : worker.stages) {
      key += ';' + std::to_string(stage.end_layer);
      if (stage.recompute) key += 'r';
      for (const DeviceName& device : stage.devices) {
        key += ',' + cluster_.kind_of(device).name + '@' + node(device.node);
      }
      for (const int share : stage.shares) key += ':' + std::to_string(share);
    }
    return key;
  }

 private:
  std::string node(const std::string& name) {
    if (named_) return name;
    return std::to_string(numbers_.emplace(name, numbers_.size()).first->second);
  }

  const Cluster& cluster_;
  bool named_;
  std::map<std::string, std::size_t> numbers_;
};

// Without a server a worker's memory also hangs on who adds up gradients with it.
std::string sums_key(const Plan& plan, std::size_t vw) {
  if (plan.server || plan.virtual_workers.size() == 1) return "";
  if (!replicated(plan)) return '+' + std::to_string(plan.virtual_workers.size());
  std::string key;
  for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
    const MemoryRule rule =
        memory_rule(plan, VirtualWorkerId{static_cast<int>(vw)}, StageId{static_cast<int>(k)});
    key += '+' + std::to_string(rule.all_reduced);
  }
  return key;
}

}  // namespace

bool exchanges_seldom(const Plan& plan) {
  const System system = composition(plan);
  return traits(system.sync).rounds && traits(system.schedule).has_flush;
}

const SimulatedPlans::Known* SimulatedPlans::find(const std::string& key) const {
  const auto known = known_.find(key);
  return known == known_.end() ? nullptr : &known->second;
}

PlanScores::PlanScores(const Cluster& cluster, const Profile& profile,
                       std::shared_ptr<SimulatedPlans> simulated)
    : cluster_(cluster),
      profile_(profile),
      simulated_(simulated ? std::move(simulated) : std::make_shared<SimulatedPlans>()) {}

std::string PlanScores::key(const Plan& plan, std::size_t vw) const {
  WorkerKeys workers(cluster_, plan);
  return common_key(plan) + workers.of(plan.virtual_workers[vw]);
}

std::string PlanScores::timing_key(const Plan& plan) const {
  WorkerKeys workers(cluster_, plan);
  std::string key = common_timing_key(plan);
  for (const PlanVirtualWorker& worker : plan.virtual_workers) key += workers.of(worker);
  return key;
}

bool PlanScores::fits(const Plan& plan, std::size_t vw) {
  const auto [known, is_new] = fits_.emplace(key(plan, vw) + sums_key(plan, vw), true);
  if (!is_new) return known->second;
  const PlanVirtualWorker& worker = plan.virtual_workers[vw];
  const VirtualWorkerId id{static_cast<int>(vw)};
  for (std::size_t k = 0; k < worker.stages.size(); ++k) {
    const auto needs = replica_needs(plan, cluster_, profile_, id, StageId{static_cast<int>(k)},
                                     simulated_->tables().get());
    known->second = std::none_of(needs.begin(), needs.end(),
                                 [](const StageNeed& need) { return need.missing() > 0; });
    if (!known->second) break;
  }
  return known->second;
}

bool PlanScores::fits(const Plan& plan) {
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    if (!fits(plan, vw)) {
      why_not_ = format("virtual worker %zu does not fit its devices' memory", vw);
      return false;
    }
  }
  return true;
}

CostTable& PlanScores::costs_of(const Plan& plan) {
  const Updates updates = updates_of(plan);
  return costs_.try_emplace(updates, cluster_, profile_, updates, simulated_->tables())
      .first->second;
}

std::string PlanScores::key(const Plan& plan) {
  std::string text = common_key(plan);
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    text += '|' + std::to_string(worker.minibatch.value_or(0));
    for (const PlanStage& stage : worker.stages) {
      text += ';' + std::to_string(stage.end_layer);
      if (stage.recompute) text += 'r';
      for (const DeviceName& device : stage.devices) text += ',' + to_string(device);
      for (const int share : stage.shares) text += ':' + std::to_string(share);
    }
  }
  return text;
}

void PlanScores::note(const Plan& plan, double throughput) {
  if (fits(plan)) throughput_.emplace(key(plan), Simulated{throughput});
}

std::optional<double> PlanScores::about(const Plan& plan) {
  const System system = composition(plan);
  if (plan.server || !traits(system.schedule).has_flush) return throughput(plan);
  try {
    if (!fits(plan)) return std::nullopt;
    return simulated(plan, Patience::usual, kFewMinibatches).throughput;
  } catch (const TooManyRates&) {
    actions_ += kMostRates / kRatesPerAction;
  } catch (const UserError&) {
  }
  return std::nullopt;
}

std::int64_t PlanScores::actions_of(const Plan& plan) const {
  const auto known = throughput_.find(key(plan));
  return known == throughput_.end() ? 0 : known->second.actions;
}

SimulatedPlans::Known PlanScores::simulated(const Plan& plan, Patience patience,
                                            std::optional<int> minibatches) {
  std::string key = timing_key(plan);
  if (minibatches) key += format("/%d", *minibatches);
  if (const SimulatedPlans::Known* known = simulated_->find(key)) {
    actions_ += known->actions;
    return *known;
  }
  SimulationRequest request;
  request.stages = request.ledgers = false;  // whether the plan fits was asked before
  request.costs = &costs_of(plan);
  request.memory = &simulated_->memory();
  request.minibatches = minibatches;
  if (patience == Patience::usual) request.most_rates = kMostRates;
  const Simulation simulation = simulate(plan, cluster_, profile_, request);
  const SimulatedPlans::Known known{simulation.throughput, simulation.iteration_seconds,
                                    work_of(simulation)};
  actions_ += known.actions;
  ++simulations_;
  simulated_->add(std::move(key), known);
  return known;
}

std::optional<double> PlanScores::throughput(const Plan& plan, Patience patience) {
  const auto [known, is_new] = throughput_.emplace(key(plan), Simulated{});
  if (!is_new) return known->second.throughput;
  try {
    if (!fits(plan)) return std::nullopt;
    const SimulatedPlans::Known simulation = simulated(plan, patience);
    known->second = {simulation.throughput, simulation.actions};
  } catch (const TooManyRates&) {
    actions_ += kMostRates / kRatesPerAction;
    why_not_ = "too many messages share its links to simulate it in a search";
  } catch (const UserError& error) {
    why_not_ = error.what();
  }
  return known->second.throughput;
}

std::optional<double> PlanScores::alone(const Plan& plan, std::size_t vw) {
  if (exchanges_seldom(plan)) {
    if (!fits(plan, vw)) return std::nullopt;
    Plan between = plan;
    between.sync = to_string(SyncRule::all_reduce);
    between.server.reset();
    return alone(between, vw);
  }
  const auto [known, is_new] = alone_.emplace(key(plan, vw), std::nullopt);
  if (!is_new) return known->second;
  Plan one = plan;
  one.virtual_workers = {plan.virtual_workers[vw]};
  try {
    if (!fits(one)) return std::nullopt;
    known->second = simulated(one, Patience::however_long).iteration_seconds;
  } catch (const UserError& error) {
    why_not_ = error.what();
  }
  return known->second;
}

std::optional<double> PlanScores::soon_alone(const Plan& plan, std::size_t vw) {
  if (!traits(composition(plan).schedule).has_flush) return alone(plan, vw);
  const auto [known, is_new] = soon_alone_.emplace(key(plan, vw), std::nullopt);
  if (!is_new) return known->second;
  Plan one = plan;
  one.virtual_workers = {plan.virtual_workers[vw]};
  if (exchanges_seldom(plan)) {
    one.sync = to_string(SyncRule::all_reduce);
    one.server.reset();
  }
  try {
    known->second = simulated(one, Patience::usual, kFewMinibatches).iteration_seconds;
  } catch (const TooManyRates&) {
    actions_ += kMostRates / kRatesPerAction;
  } catch (const UserError& error) {
    why_not_ = error.what();
  }
  return known->second;
}

std::optional<double> PlanScores::slowest_alone(const Plan& plan) {
  if (!fits(plan)) return std::nullopt;
  double slowest = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const auto seconds = soon_alone(plan, vw);
    if (!seconds) return std::nullopt;
    slowest = std::max(slowest, *seconds);
  }
  return slowest;
}

double PlanScores::least_seconds(const Plan& plan, std::size_t vw) {
  const System system = composition(plan);
  const PlanVirtualWorker& worker = plan.virtual_workers[vw];
  const WorkerTimes times =
      worker_times(plan, VirtualWorkerId{static_cast<int>(vw)}, costs_of(plan));
  const auto positions = static_cast<std::size_t>(pipeline_of(worker, system.schedule).positions);
  std::map<std::pair<std::size_t, std::size_t>, double> seconds;  // by position and replica
  double most = 0;
  for (std::size_t k = 0; k < times.size(); ++k) {
    const int forwards = recomputes(worker.stages[k], system.weights) ? 2 : 1;
    for (std::size_t r = 0; r < times[k].size(); ++r) {
      const ReplicaTimes& of = times[k][r];
      double& device = seconds[{k % positions, r}];
      device += plan.micro_batches * (forwards * of.forward + of.backward) + of.update;
      most = std::max(most, device);
    }
  }
  return most;
}

}  // namespace hetpipe
