// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/planner.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/dapple.h"
#include "partitioner/planners/data_parallel.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition_model.h"
#include "partitioner/planners/pipedream.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/planners/search.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/stage_times.h"

namespace hetpipe {
namespace {

void check_word(Problems& problems, const char* option, const char* what, const std::string& word,
                const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return;
  problems.add(option,
               unknown(what, word, known) + ". Name one of these: " + join(known, ", ") + ".");
}

void check_part(Problems& problems, const char* option, const char* what, const std::string& word,
                const std::vector<std::string>& known) {
  if (!word.empty()) check_word(problems, option, what, word, known);
}

void check_count(Problems& problems, const char* option, int value, int least, int most) {
  if (value >= least && value <= most) return;
  problems.add(option, format("%d (must be between %d and %d). Correct it.", value, least, most));
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

bool allocates(const PlanRequest& request) {
  const auto& policies = allocation_policies();
  return request.policy &&
         std::find(policies.begin(), policies.end(), *request.policy) != policies.end();
}

constexpr int kLeastRound = 8;       // waves
constexpr double kExchanges = 0.02;  // of the throughput: what they may cost

bool chooses_in_flight(const ScheduleTraits& row) { return row.chooses_in_flight; }

// Ensures that the words are known.
System replaced(const PlanRequest& request) {
  Plan plan;
  plan.system = request.system;
  plan.schedule = request.schedule;
  plan.weights = request.weights;
  plan.sync = request.sync;
  return composition(plan);
}

}  // namespace

void check_request(const PlanRequest& request) {
  Problems problems;
  check_word(problems, "--system", "system", request.system, system_names());
  check_part(problems, "--schedule", "schedule", request.schedule, schedule_names());
  check_part(problems, "--weights", "weights", request.weights, weight_names());
  check_part(problems, "--sync", "sync", request.sync, sync_names());
  if (request.policy) {
    auto policies = allocation_policies();
    policies.emplace_back("search");
    check_word(problems, "--policy", "policy", *request.policy, policies);
  }
  check_word(problems, "--placement", "placement", request.placement, {"default", "local"});
  if (request.pull) check_word(problems, "--pull", "pull", *request.pull, {"bound", "newest"});
  check_word(problems, "--push-precision", "precision", request.push_precision, {"fp32", "bf16"});
  if (request.optimizer) {
    check_word(problems, "--optimizer", "optimizer", *request.optimizer, optimizer_names());
  }
  if (request.scale) check_word(problems, "--scale", "scale", *request.scale, server_scales());
  check_count(problems, "--in-flight", request.in_flight.value_or(1), 1, 10000);
  check_count(problems, "--virtual-workers", request.virtual_workers.value_or(1), 1, 1 << 20);
  check_count(problems, "--minibatch", request.minibatch.value_or(1), 1, 1000000000);
  check_count(problems, "--micro-batches", request.micro_batches.value_or(1), 1, 10000);
  check_count(problems, "--clock-distance", request.clock_distance.value_or(0), 0, 10000);
  check_count(problems, "--round", request.round.value_or(1), 1, kMostRound);
  std::vector<std::string> nodes;
  for (const Node& node : request.cluster.nodes) nodes.push_back(node.name);
  std::set<std::string> named;
  for (const std::string& node : request.server_nodes) {
    check_word(problems, "--servers", "node", node, nodes);
    if (!named.insert(node).second) {
      problems.add("--servers", "node '" + node + "' is named twice (one shard each). Remove one.");
    }
  }
  problems.throw_if_any();
  const System system = replaced(request);
  const std::string why = why_senseless(system);
  if (!why.empty()) {
    problems.add(!request.weights.empty()    ? "--weights"
                 : !request.schedule.empty() ? "--schedule"
                                             : "--system",
                 why + ". Use weights that work with that schedule: " +
                     join(sensible_weights(system), ", ") + ".");
  }
  if (needs_one_in_flight(system) &&
      (system.planner != PlannerRule::data_parallel || request.policy) && request.in_flight != 1) {
    problems.add("--weights",
                 "'" + std::string(to_string(system.weights)) + "' under schedule '" +
                     std::string(to_string(system.schedule)) +
                     "' (a pipeline that is never flushed updates between a minibatch's F and B). "
                     "Use --weights " +
                     std::string(to_string(WeightRule::stash)) +
                     ", a schedule with a flush, or --in-flight 1.");
  }
  if (allocates(request) && !traits(system.schedule).chooses_in_flight) {
    const std::string other =
        request.schedule.empty() ? "--system " + request.system : "--schedule " + request.schedule;
    problems.add("--policy",
                 format("%s cannot be combined with %s (allocation policies are for pipelines that "
                        "are never flushed, schedule '%s'). Leave one of the two out, or use "
                        "--policy search.",
                        request.policy->c_str(), other.c_str(),
                        join(names_where(kScheduleRules, chooses_in_flight), "', '").c_str()));
  }
  problems.throw_if_any();
}

System composition(const PlanRequest& request) {
  check_request(request);
  return replaced(request);
}

namespace {

// Whether some policy forms virtual workers that can all be cut: into as many stages as they have
// devices, which a short model does not allow.
bool a_policy_can_cut(const PlanRequest& request) {
  const std::size_t most = request.profile->layers.size();
  if (request.cluster.devices().size() <= most) return true;
  PlanRequest estimated = request;
  estimated.profile =
      with_estimates(std::move(estimated.profile), request.cluster, request.precision);
  const std::vector<double> speeds = kind_speeds(estimated, default_minibatch(estimated));
  bool formed = false;
  for (const std::string& policy : allocation_policies()) {
    try {
      const Allocation allocation =
          allocate(request.cluster, policy, speeds, request.virtual_workers);
      formed = true;
      if (std::all_of(allocation.begin(), allocation.end(),
                      [&](const auto& devices) { return devices.size() <= most; })) {
        return true;
      }
    } catch (const UserError&) {
      // This policy cannot form so many; where none can, HetPipe's planner says it.
    }
  }
  return !formed;
}

}  // namespace

PlannerRule planner_of(const PlanRequest& request) {
  const System system = composition(request);
  if (allocates(request)) return PlannerRule::hetpipe;
  if (request.policy) return PlannerRule::search;
  if (system.planner == PlannerRule::hetpipe &&
      (!traits(system.schedule).chooses_in_flight || !a_policy_can_cut(request))) {
    return PlannerRule::search;
  }
  return system.planner;
}

namespace {

Plan plan_by(PlannerRule planner, const PlanRequest& request) {
  switch (planner) {
    case PlannerRule::hetpipe:
      return plan_hetpipe(request);
    case PlannerRule::dapple:
      return plan_dapple(request);
    case PlannerRule::pipedream:
      return plan_pipedream(request);
    case PlannerRule::data_parallel:
      return plan_data_parallel(request);
    case PlannerRule::search:
      return plan_search(request);
  }
  ensure(false, "every planner has its function");
  return {};
}

// With the optimizer of its row's sync or that of the servers, whichever is worth more. UserError
// of the former if neither fits.
Plan plan_either_sync(const PlanRequest& request) {
  PlanRequest other = request;
  other.sync = to_string(SyncRule::server_step);
  std::optional<Plan> steps;
  try {
    steps = plan_hetpipe(other);
  } catch (const UserError&) {
    return plan_hetpipe(request);
  }
  try {
    Plan plan = plan_hetpipe(request);
    return request.worth(*steps) > kGrowth * request.worth(plan) ? *std::move(steps) : plan;
  } catch (const UserError&) {
    return *std::move(steps);  // whose stages need no memory for an optimizer
  }
}

}  // namespace

bool weighs_syncs(const PlanRequest& request) {
  return request.weighs_lateness() && request.sync.empty() &&
         request.cluster.devices().size() <= kFewInSpace;
}

bool may_give_servers_steps(const PlanRequest& request) {
  if (!request.chooses_sync || !weighs_syncs(request)) return false;
  if (!optimizer_named(optimizer_of(request)).usually_damps) return false;  // nothing was measured
  const System parts = replaced(request);
  return parts.planner == PlannerRule::hetpipe && parts.sync == SyncRule::wsp;
}

Plan make_plan(const PlanRequest& given) {
  PlanRequest request = given;
  request.profile = with_estimates(std::move(request.profile), request.cluster, request.precision);
  Plan plan = candidate_plan(request);
  note_inputs(request, plan);
  return plan;
}

Plan candidate_plan(const PlanRequest& request) {
  const PlannerRule planner = planner_of(request);
  if (planner == PlannerRule::search) return plan_by(planner, request);
  Plan plan = planner == PlannerRule::hetpipe && may_give_servers_steps(request)
                  ? plan_either_sync(request)
                  : plan_by(planner, request);
  choose_round(request, plan);
  return plan;
}

void choose_round(const PlanRequest& request, Plan& plan) {
  if (!plan.server || !traits(composition(plan).sync).rounds || request.round) return;
  SimulationRequest apart;
  apart.exchanges = apart.ledgers = false;
  const double most = simulate(plan, request.cluster, request.profile, apart).throughput;
  plan.server->round = kLeastRound;
  predict(request, plan);
  Plan longer = plan;
  while (longer.predicted->throughput < (1 - kExchanges) * most &&
         2 * longer.server->round <= kMostRound) {
    longer.server->round *= 2;
    predict(request, longer);
    if (request.worth(longer) > request.worth(plan)) plan = longer;
  }
}

int default_minibatch(const PlanRequest& request) {
  int best = 0;
  for (const Measurement& m : request.profile->measurements) {
    const int minibatch = m.batch * request.micro_batches.value_or(1);
    if (best == 0 || std::abs(minibatch - 32) < std::abs(best - 32) ||
        (std::abs(minibatch - 32) == std::abs(best - 32) && minibatch < best)) {
      best = minibatch;
    }
  }
  return best == 0 ? 32 * request.micro_batches.value_or(1) : best;
}

void check_slices(int minibatch, int micro_batches) {
  if (minibatch % micro_batches == 0) return;
  throw UserError("--minibatch", format("%d does not divide into %d micro-batches (they are equal "
                                        "slices of it). Change one.",
                                        minibatch, micro_batches));
}

std::vector<double> kind_speeds(const PlanRequest& request, int samples) {
  std::vector<double> speeds(request.cluster.kinds.size(), 0.0);
  for (const int index : kinds_present(request.cluster)) {
    const auto kind = static_cast<std::size_t>(index);
    const LayerCosts costs = costs_on(request.profile, request.cluster.kinds[kind], samples);
    double seconds = 0;
    for (std::size_t l = 0; l < costs.forward.size(); ++l) {
      seconds += costs.forward[l] + costs.backward[l];
    }
    speeds[kind] = samples / std::max(seconds, 1e-12);
  }
  return speeds;
}

std::vector<std::string> objective_names() { return {"throughput", "time-to-accuracy"}; }

std::optional<PlanObjective> try_parse_objective(std::string_view name) {
  if (name == "throughput") return PlanObjective::throughput;
  if (name == "time-to-accuracy") return PlanObjective::time_to_accuracy;
  return std::nullopt;
}

std::string optimizer_of(const PlanRequest& request) {
  return request.optimizer.value_or(usual_optimizer(composition(request)));
}

double PlanRequest::most_worth(std::size_t workers, int of_minibatch, double throughput) const {
  if (!weighs_lateness()) return throughput;
  return throughput / least_samples_factor(composition(*this), optimizer_of(*this), workers,
                                           of_minibatch, critical_batch);
}

int clock_distance_of(const PlanRequest& request) {
  return request.clock_distance.value_or(usual_clock_distance(composition(request)));
}

PlanServer server_of(const PlanRequest& request) {
  const System system = composition(request);
  PlanServer server;
  server.nodes =
      request.server_nodes.empty() ? default_server_nodes(request) : request.server_nodes;
  server.clock_distance = clock_distance_of(request);
  server.placement = request.placement;
  server.pull = request.pull;
  server.scale = request.scale.value_or(usual_scale(system, optimizer_of(request)));
  server.push_precision = request.push_precision;
  if (!server.pull && server.clock_distance > 0) {
    server.pull = usual_pull(system, server.clock_distance);
  }
  if (traits(system.sync).rounds) {
    server.round = request.round.value_or(kLeastRound);
    server.outer_rate = request.outer_rate;
    server.outer_momentum =
        request.outer_momentum.value_or(usual_outer_momentum(server.clock_distance));
  }
  return server;
}

Plan blank_plan(const PlanRequest& request) {
  Plan plan;
  plan.system = request.system;
  plan.model = request.profile->model;
  plan.optimizer = optimizer_of(request);
  plan.ema = request.ema;
  plan.precision = request.precision;
  const System& row = system_named(request.system);
  const System parts = composition(request);
  if (parts.schedule != row.schedule) plan.schedule = to_string(parts.schedule);
  if (parts.weights != row.weights) plan.weights = to_string(parts.weights);
  if (parts.sync != row.sync) plan.sync = to_string(parts.sync);
  return plan;
}

std::shared_ptr<ModelTables> tables_of(const PlanRequest& request) {
  return request.tables ? request.tables : std::make_shared<ModelTables>();
}

void predict(const PlanRequest& request, Plan& plan) {
  if (!plan.predicted) plan.predicted = Prediction{};
  SimulationRequest how;
  how.ledgers = false;
  CostTable costs(request.cluster, request.profile, updates_of(plan), request.tables);
  how.costs = &costs;
  const Simulation simulation = simulate(plan, request.cluster, request.profile, how);
  plan.predicted->throughput = simulation.throughput;
  plan.predicted->label_age = label_age(plan, simulation);
  plan.predicted->samples_factor = samples_factor(plan, request.critical_batch);
}

std::optional<double> label_age(const Plan& plan, const Simulation& simulation) {
  if (!traits(composition(plan).sync).steps || !plan.server) return std::nullopt;
  if (plan.server->clock_distance == 0) return std::nullopt;
  return simulation.label_age;
}

void note_inputs(const PlanRequest& request, Plan& plan) {
  Prediction prediction = plan.predicted.value_or(Prediction{});
  prediction.cluster_hash = to_hex(hash_text(to_toml(request.cluster)));
  prediction.profile_hash = to_hex(hash_text(to_toml(request.profile)));
  prediction.samples_factor = samples_factor(plan, request.critical_batch);
  plan.predicted = std::move(prediction);
}

}  // namespace hetpipe
