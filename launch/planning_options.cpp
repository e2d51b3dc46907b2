// SPDX-License-Identifier: Apache-2.0
#include "launch/planning_options.h"

#include <utility>

namespace hetpipe {
namespace {

// As in a plan file.
constexpr Limits kInFlight{1, 1e4};
constexpr Limits kVirtualWorkers{1, 1 << 20};
constexpr Limits kMinibatch{1, 1e9};
constexpr Limits kClockDistance{0, 1e4};

std::string unless_planned(const std::string& otherwise, PlanGiven given) {
  return given == PlanGiven::possibly ? "the plan's, else " + otherwise : otherwise;
}

}  // namespace

OptionGroup shape_options(PlanningOptions& options, PlanGiven given) {
  const PlanRequest usual;
  const auto otherwise = [given](const std::string& text) { return unless_planned(text, given); };
  return {
      "The plan",
      {
          unset_means(otherwise(usual.system),
                      text_option("system", "S", options.system,
                                  "How minibatches are pipelined and kept together.")),
          unset_means(otherwise("the one predicted to be fastest"),
                      choice_option("policy", options.policy, {"np", "ed", "hd"},
                                    "Which devices form a virtual worker: those of a node, one "
                                    "of every node, or nodes in pairs.")),
          unset_means(otherwise("raised while the predicted throughput grows"),
                      integer_option("in-flight", "N", options.in_flight, kInFlight,
                                     "Minibatches in flight in each virtual worker (Nm), the "
                                     "length of a wave.")),
          unset_means(otherwise("what the policy forms"),
                      integer_option("virtual-workers", "N", options.virtual_workers,
                                     kVirtualWorkers, "Number of virtual workers.")),
          unset_means(otherwise("the measured batch nearest to 32"),
                      integer_option("minibatch", "N", options.minibatch, kMinibatch,
                                     "Samples of one virtual worker's minibatch.")),
          unset_means(otherwise(usual.optimizer),
                      choice_option("optimizer", options.optimizer, {"sgd", "sgd-momentum", "adam"},
                                    "Optimizer; its state counts in every stage's memory.")),
      }};
}

OptionGroup server_options(PlanningOptions& options, PlanGiven given) {
  const PlanRequest usual;
  const auto otherwise = [given](const std::string& text) { return unless_planned(text, given); };
  return {
      "Parameter servers",
      {
          unset_means(otherwise(std::to_string(usual.clock_distance)),
                      integer_option("clock-distance", "D", options.clock_distance, kClockDistance,
                                     "Waves that a virtual worker may be ahead of the "
                                     "slowest; 0 is synchronous.")),
          unset_means(otherwise(usual.pull),
                      choice_option("pull", options.pull, {"bound", "newest"},
                                    "Which weights a pull brings: those of exactly D waves "
                                    "ago, the same in every run, or the newest there are.")),
          unset_means(otherwise(PlanServer{}.scale),
                      choice_option("scale", options.scale, {"sum", "mean"},
                                    "How the servers add the updates of virtual workers.")),
          unset_means(otherwise("nodes without devices, or the first"),
                      list_option("servers", "NODE,...", options.servers,
                                  "Nodes that hold a shard of the parameters each.")),
          unset_means(otherwise(usual.placement),
                      choice_option("placement", options.placement, {"default", "local"},
                                    "Layers round-robin over the servers, or each on the node "
                                    "of the stage that owns it.")),
      }};
}

std::vector<std::string> settled_by_plan(const PlanningOptions& options) {
  std::vector<std::string> names;
  if (options.system) names.push_back("--system");
  if (options.policy) names.push_back("--policy");
  if (options.in_flight) names.push_back("--in-flight");
  if (options.virtual_workers) names.push_back("--virtual-workers");
  if (options.minibatch) names.push_back("--minibatch");
  if (!options.servers.empty()) names.push_back("--servers");
  if (options.placement) names.push_back("--placement");
  return names;
}

Plan make_plan(const PlanningOptions& options, Cluster cluster, Profile profile) {
  PlanRequest request;
  request.cluster = std::move(cluster);
  request.profile = std::move(profile);
  request.policy = options.policy;
  request.in_flight = options.in_flight;
  request.virtual_workers = options.virtual_workers;
  request.minibatch = options.minibatch;
  request.server_nodes = options.servers;
  if (options.system) request.system = *options.system;
  if (options.optimizer) request.optimizer = *options.optimizer;
  if (options.clock_distance) request.clock_distance = *options.clock_distance;
  if (options.placement) request.placement = *options.placement;
  if (options.pull) request.pull = *options.pull;
  Plan plan = plan_hetpipe(request);
  if (options.scale && plan.server) plan.server->scale = *options.scale;
  return plan;
}

void override_plan(const PlanningOptions& options, Plan& plan) {
  if (options.optimizer) plan.optimizer = *options.optimizer;
  Problems problems;
  const auto apply = [&](const char* name, const auto& option, auto member) {
    if (!option) return;
    if (plan.server) {
      (*plan.server).*member = *option;
    } else {
      problems.add(name, "has nothing to act on (the plan has no parameter server). Leave it out.");
    }
  };
  apply("--clock-distance", options.clock_distance, &PlanServer::clock_distance);
  apply("--pull", options.pull, &PlanServer::pull);
  apply("--scale", options.scale, &PlanServer::scale);
  problems.throw_if_any();
}

}  // namespace hetpipe
