// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../cases.h"
#include "base/hash.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/explain.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace planner_test {

using test::user_error;
using testing::HasSubstr;

PlanRequest request_of(const Cluster& cluster, int layers) {
  PlanRequest request;
  request.cluster = cluster;
  std::vector<std::string> kinds;
  for (const DeviceKind& kind : cluster.kinds) kinds.push_back(kind.name);
  request.profile =
      test::chain_of(layers, kinds, [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  return request;
}

const Cluster kPool = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}, {}}, 1'000'000'000);

TEST(Planner, AValidPlanThatIsItsOwnPrediction) {
  const PlanRequest request = request_of(kPool, 12);
  const Plan plan = plan_hetpipe(request);
  check_plan(plan, "plan", &kPool, 12);
  EXPECT_EQ(parse_plan(to_toml(plan), "plan.toml"), plan);
  EXPECT_EQ(plan.minibatch, 32);
  EXPECT_GE(plan.in_flight, 2);
  EXPECT_EQ(plan.server->nodes, std::vector<std::string>{"n2"});
  ASSERT_TRUE(plan.predicted);
  EXPECT_DOUBLE_EQ(plan.predicted->throughput, simulate(plan, kPool, request.profile).throughput);
  EXPECT_EQ(plan.predicted->cluster_hash, to_hex(hash_text(to_toml(kPool))));
  double bottleneck = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const StagePrediction& p = *plan.virtual_workers[vw].stages[k].predicted;
      bottleneck = std::max(bottleneck, p.forward_seconds + p.backward_seconds + p.receive_seconds);
      EXPECT_EQ(p.memory,
                stage_ledger(plan, kPool, request.profile, VirtualWorkerId{static_cast<int>(vw)},
                             StageId{static_cast<int>(k)})
                    .total());
    }
  }
  EXPECT_NEAR(plan.predicted->bottleneck, bottleneck, 1e-12);
}

TEST(Planner, TheUsualOptimizerAndScale) {
  PlanRequest request = request_of(kPool, 12);
  for (const char* system : {"hetpipe", "ssp", "asp"}) {
    request.system = system;
    const Plan plan = make_plan(request);
    EXPECT_EQ(plan.optimizer, "adam") << system;
    EXPECT_EQ(plan.server->scale, "root") << system;
  }
  for (const char* system : {"dapple", "data-parallel", "pipedream"}) {
    request.system = system;
    EXPECT_EQ(make_plan(request).optimizer, "adam") << system;
  }
  request.system = "spectrain";
  EXPECT_EQ(make_plan(request).optimizer, "sgd-momentum");
  request.system = "hetpipe";
  request.optimizer = "adamw";
  EXPECT_EQ(make_plan(request).server->scale, "sum");
  request.scale = "mean";
  EXPECT_EQ(make_plan(request).server->scale, "mean");
}

// On the devices where no server keeps it: in what was predicted, and in what is written.
TEST(Planner, TheAverageOfTheWeightsTakesMemory) {
  for (const char* system : {"hetpipe", "pipedream", "dapple", "data-parallel", "gpipe"}) {
    SCOPED_TRACE(system);
    PlanRequest request = request_of(kPool, 12);
    request.system = system;
    request.ema = 0.75;
    const Plan plan = make_plan(request);
    EXPECT_EQ(parse_plan(to_toml(plan), "plan.toml"), plan);
    EXPECT_EQ(plan.ema, 0.75);
    for (std::size_t k = 0; k < plan.virtual_workers.front().stages.size(); ++k) {
      const StageId stage{static_cast<int>(k)};
      const auto total = [&](const Plan& of) {
        return stage_ledger(of, kPool, request.profile, VirtualWorkerId{0}, stage).total();
      };
      Plan without = plan;
      without.ema = 0;
      std::int64_t parameters = 0;
      const PlanStage& of = plan.virtual_workers.front().stages[k];
      for (int l = of.first_layer; l < of.end_layer; ++l) {
        parameters += request.profile->layers[static_cast<std::size_t>(l)].parameter_bytes;
      }
      EXPECT_GT(parameters, 0);
      EXPECT_EQ(total(plan) - total(without), plan.server ? 0 : parameters);
      if (of.predicted) {
        EXPECT_EQ(of.predicted->memory, total(plan));
      }
    }
    std::string text = to_toml(plan);
    text.replace(text.find("ema = 0.75"), 10, "ema = 1.00");
    EXPECT_THAT(user_error([&] { parse_plan(text, "p.toml"); }), HasSubstr("ema"));
  }
}

// Where the server's interface is slow: less to push is faster, for every planner that has servers,
// and what is predicted is what the plan's simulation says.
TEST(Planner, PricesPushesInBf16) {
  Cluster pool = kPool;
  pool.inter_node.bandwidth = 1e6;
  const std::vector<std::pair<std::string, std::optional<std::string>>> planners{
      {"hetpipe", std::nullopt}, {"hetpipe", "search"}, {"ssp", std::nullopt}};
  for (const auto& [system, policy] : planners) {
    SCOPED_TRACE(system + ' ' + policy.value_or(""));
    PlanRequest request = request_of(pool, 12);
    for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 100'000;
    request.system = system;
    request.policy = policy;
    const Plan whole = make_plan(request);
    request.push_precision = "bf16";
    const Plan halved = make_plan(request);
    ASSERT_TRUE(halved.server);
    EXPECT_EQ(halved.server->push_precision, "bf16");
    EXPECT_EQ(parse_plan(to_toml(halved), "plan.toml"), halved);
    EXPECT_DOUBLE_EQ(halved.predicted->throughput,
                     simulate(halved, pool, request.profile).throughput);
    EXPECT_GT(halved.predicted->throughput, 1.1 * whole.predicted->throughput);
  }
}

// Rounds are as long as it takes for exchanges to cost next to nothing, and no longer; what is
// predicted is what the plan's simulation says.
TEST(Planner, RoundsHideTheirExchanges) {
  Cluster pool = kPool;
  pool.inter_node.bandwidth = 1e6;
  for (const std::string system : {"hetpipe", "data-parallel"}) {
    SCOPED_TRACE(system);
    PlanRequest request = request_of(pool, 12);
    for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 100'000;
    request.system = system;
    request.sync = "outer";
    const Plan plan = make_plan(request);
    const PlanServer& server = plan.server.value();
    EXPECT_EQ(server.clock_distance, 1);
    EXPECT_EQ(server.pull, "bound");
    EXPECT_EQ(server.scale, "mean");
    EXPECT_EQ(server.outer_momentum, 0.5);
    EXPECT_GT(server.round, 8);
    EXPECT_EQ(parse_plan(to_toml(plan), "plan.toml"), plan);
    const double throughput = simulate(plan, pool, request.profile).throughput;
    EXPECT_DOUBLE_EQ(plan.predicted->throughput, throughput);
    Plan other = plan;
    other.server->round *= 4;
    EXPECT_LT(simulate(other, pool, request.profile).throughput, 1.03 * throughput);
    other.server->round = server.round / 2;
    EXPECT_LT(simulate(other, pool, request.profile).throughput, 0.99 * throughput);
    request.objective = PlanObjective::time_to_accuracy;
    const Plan best = make_plan(request);
    EXPECT_LE(best.server->round, server.round);
    for (const int round : {8, 32}) {
      other.server->round = round;
      const double samples = simulate(other, pool, request.profile).throughput;
      EXPECT_LE(request.worth(other, samples),
                1.001 * request.worth(best, best.predicted->throughput));
    }
    if (system == "data-parallel") {  // a run that is shorter than a round
      SimulationRequest brief;
      brief.minibatches = server.round / 2;
      EXPECT_GT(simulate(plan, pool, request.profile, brief).throughput, 0);
    }
    request.round = 3;
    EXPECT_EQ(make_plan(request).server->round, 3);
  }
}

// Whole nodes, whose devices sum their gradients.
TEST(Planner, DataParallelRoundsStayInsideOfNodes) {
  PlanRequest request = request_of(kPool, 12);
  request.system = "data-parallel";
  request.sync = "outer";
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.virtual_workers.size(), 2u);  // the third node has no device
  for (std::size_t v = 0; v < plan.virtual_workers.size(); ++v) {
    for (const DeviceName& device : plan.virtual_workers[v].stages.at(0).devices) {
      EXPECT_EQ(device.node, kPool.nodes[v].name);
    }
  }
}

// Two stages whose memory has no room for an optimizer's state, but for plain SGD.
TEST(Planner, StagesNeedNoMemoryForAnOptimizerAtTheServers) {
  const auto plan_of = [](const char* policy, const char* sync, std::int64_t memory) {
    PlanRequest request = request_of(test::cluster_of({{"fast", "fast"}, {}}, memory), 12);
    for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 10'000'000;
    request.policy = policy;
    request.virtual_workers = 1;
    request.in_flight = 1;
    request.optimizer = "adam";
    request.sync = sync;
    request.objective = PlanObjective::time_to_accuracy;
    request.chooses_sync = true;
    return make_plan(request);
  };
  std::int64_t room = 0;
  const Plan roomy = plan_of("np", "server-step", 1'000'000'000'000);
  for (const PlanStage& stage : roomy.virtual_workers.at(0).stages) {
    room = std::max(room, stage.predicted->memory + stage.predicted->memory / 10);
  }
  for (const char* policy : {"np", "search"}) {
    SCOPED_TRACE(policy);
    EXPECT_EQ(plan_of(policy, "server-step", room).virtual_workers.at(0).stages.size(), 2u);
    EXPECT_THROW(plan_of(policy, "wsp", room), UserError);
    EXPECT_EQ(plan_of(policy, "", room).sync, "server-step");
  }
}

// Four virtual workers' waves as one step are worth more than steps of each: but not where a step
// takes longer than a wave, or labels are old.
TEST(Planner, GivesTheServersTheOptimizerWhereThatIsWorthMore) {
  PlanRequest request = request_of(
      test::cluster_of({{"fast"}, {"fast"}, {"fast"}, {"fast"}, {}}, 80'000'000'000), 12);
  request.objective = PlanObjective::time_to_accuracy;
  request.in_flight = 4;
  request.chooses_sync = true;
  const auto sync_of = [](const PlanRequest& of) { return make_plan(of).sync; };
  for (const char* policy : {"np", "search"}) {
    SCOPED_TRACE(policy);
    request.policy = policy;
    const Plan plan = make_plan(request);
    EXPECT_EQ(plan.sync, "server-step");
    EXPECT_EQ(plan.server->scale, "mean");
    PlanRequest other = request;
    other.sync = "server-step";
    EXPECT_EQ(make_plan(other), plan);
    other.sync = "wsp";
    EXPECT_GT(request.worth(plan, plan.predicted->throughput),
              request.worth(make_plan(other), make_plan(other).predicted->throughput));
    other = request;
    other.chooses_sync = false;
    EXPECT_EQ(sync_of(other), "");
    other = request;
    other.objective = PlanObjective::throughput;
    EXPECT_EQ(sync_of(other), "");
    other = request;
    other.optimizer = "sgd-momentum";
    EXPECT_EQ(sync_of(other), "");
    other = request;
    other.cluster.inter_node.bandwidth = 1e12;
    EXPECT_EQ(sync_of(other), "server-step");
    for (ProfileLayer& layer : other.profile.change().layers) layer.parameter_bytes = 100'000'000;
    EXPECT_EQ(sync_of(other), "");  // a step takes 3 s
  }
  request.policy = "np";
  request.clock_distance = 4;
  const Plan fresh = make_plan(request);
  EXPECT_EQ(fresh.sync, "server-step");
  EXPECT_LT(fresh.predicted->label_age.value_or(4), 0.5);
  request.pull = "bound";
  EXPECT_EQ(sync_of(request), "");
}

// Of all depths the one that is worth most: less deep, and slower, than where throughput counts and
// pushes take long, so that long waves are fast.
TEST(Planner, TimeToAccuracyWeighsLateUpdates) {
  PlanRequest request = request_of(kPool, 12);
  request.policy = "ed";
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 1'000'000;
  const Plan fastest = make_plan(request);
  request.objective = PlanObjective::time_to_accuracy;
  request.critical_batch = 100;
  const Plan chosen = make_plan(request);
  EXPECT_LT(chosen.in_flight, fastest.in_flight);
  EXPECT_LT(chosen.predicted->throughput, fastest.predicted->throughput);
  EXPECT_EQ(chosen.predicted->samples_factor, samples_factor(chosen, 100));
  EXPECT_EQ(parse_plan(to_toml(chosen), "plan.toml"), chosen);
  const auto worth = [&](const Plan& plan) {
    return plan.predicted->throughput / samples_factor(plan, 100);
  };
  const DepthLimit depth = explain(request, chosen).depth;
  EXPECT_EQ(depth.limited_by, "accuracy");
  EXPECT_GT(depth.relative_throughput, 0.01);
  EXPECT_LT(*depth.relative, 0.01);  // of what they are worth
  EXPECT_GT(depth.samples, depth.relative_throughput - 0.01);
  for (int nm = 1; nm <= fastest.in_flight + 2; ++nm) {
    request.in_flight = nm;
    EXPECT_LE(worth(make_plan(request)), worth(chosen) * 1.01) << nm;
  }
}

TEST(Planner, TheBestOfThePolicies) {
  PlanRequest request = request_of(kPool, 12);
  const double best = plan_hetpipe(request).predicted->throughput;
  double most = 0;
  for (const char* policy : {"np", "ed", "hd"}) {
    request.policy = policy;
    most = std::max(most, plan_hetpipe(request).predicted->throughput);
  }
  EXPECT_DOUBLE_EQ(best, most);
}

TEST(Planner, MoreInFlightWhileItPays) {
  PlanRequest request = request_of(kPool, 12);
  request.policy = "np";
  const Plan chosen = plan_hetpipe(request);
  request.in_flight = 1;
  const Plan one = plan_hetpipe(request);
  EXPECT_EQ(one.in_flight, 1);
  EXPECT_GT(chosen.predicted->throughput, 1.3 * one.predicted->throughput);
  request.in_flight = chosen.in_flight + 1;
  EXPECT_LT(plan_hetpipe(request).predicted->throughput, 1.01 * chosen.predicted->throughput);
}

// Three devices in a virtual worker, and a model of two layers.
TEST(Planner, ASearchWherePoliciesFormLongerPipelinesThanTheModelHasLayers) {
  const Cluster pool = test::cluster_of({{"fast", "slow", "slow"}}, 1'000'000'000);
  PlanRequest request = request_of(pool, 3);
  request.virtual_workers = 1;
  EXPECT_EQ(planner_of(request), PlannerRule::hetpipe);
  EXPECT_EQ(make_plan(request).virtual_workers.at(0).stages.size(), 3U);
  request = request_of(pool, 2);
  request.virtual_workers = 1;
  EXPECT_EQ(planner_of(request), PlannerRule::search);
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.system, "hetpipe");
  EXPECT_LE(plan.virtual_workers.at(0).stages.size(), 2U);
  check_plan(plan, "plan", &pool, 2);
}

TEST(Planner, ASearchWhereTheScheduleIsNotForThePoliciesOfHetPipe) {
  const Cluster pool = test::cluster_of({{"fast", "slow", "slow"}}, 1'000'000'000);
  PlanRequest request = request_of(pool, 6);
  request.schedule = "gpipe";
  request.weights = "one-version";
  EXPECT_EQ(planner_of(request), PlannerRule::search);
  EXPECT_EQ(composition(make_plan(request)).schedule, ScheduleRule::gpipe);
}

// The first layer's weights are the last one's too, as in GPT-2.
TEST(Planner, PipelinesModelsWithTiedWeights) {
  const Cluster pool = test::cluster_of({{"fast", "slow", "slow"}}, 1'000'000'000);
  PlanRequest request = request_of(pool, 6);
  request.virtual_workers = 1;
  request.profile.change().layers.back().shares = request.profile->layers.front().name;
  EXPECT_EQ(planner_of(request), PlannerRule::hetpipe);
  const Plan plan = make_plan(request);
  EXPECT_EQ(plan.virtual_workers.at(0).stages.size(), 3U);
  check_plan(plan, "plan", &pool, 6);
}

TEST(Planner, MemoryLimitsWhatIsInFlight) {
  PlanRequest request = request_of(kPool, 12);
  request.policy = "np";
  request.in_flight = 2;
  const Plan two = plan_hetpipe(request);
  std::int64_t need = 0;
  for (const PlanVirtualWorker& vw : two.virtual_workers) {
    for (const PlanStage& stage : vw.stages) need = std::max(need, stage.predicted->memory);
  }
  for (DeviceKind& kind : request.cluster.kinds) kind.memory = need;
  request.in_flight.reset();
  EXPECT_LE(plan_hetpipe(request).in_flight, 2);
  for (DeviceKind& kind : request.cluster.kinds) kind.memory = 10'000;
  EXPECT_THAT(user_error([&] { plan_hetpipe(request); }), HasSubstr("The closest one"));
}

TEST(Planner, AlikeVirtualWorkersAreCutAlike) {
  PlanRequest request =
      request_of(test::cluster_of({{"fast", "fast"}, {"slow", "slow"}}, 1'000'000'000), 9);
  request.policy = "ed";
  const Plan plan = plan_hetpipe(request);
  ASSERT_EQ(plan.virtual_workers.size(), 2u);
  for (std::size_t k = 0; k < 2; ++k) {
    const PlanStage& a = plan.virtual_workers[0].stages[k];
    const PlanStage& b = plan.virtual_workers[1].stages[k];
    EXPECT_EQ(a.end_layer, b.end_layer);
    EXPECT_EQ(a.devices[0].node, b.devices[0].node);
    EXPECT_EQ(a.devices[0].index, 0);
    EXPECT_EQ(b.devices[0].index, 1);
  }
}

TEST(Planner, WhereServersStandByDefault) {
  PlanRequest request = request_of(test::cluster_of({{"fast"}, {"slow"}}, 1'000'000'000), 4);
  request.policy = "np";
  EXPECT_EQ(plan_hetpipe(request).server->nodes, std::vector<std::string>{"n0"});
  request.placement = "local";
  EXPECT_EQ(plan_hetpipe(request).server->nodes, (std::vector<std::string>{"n0", "n1"}));
  request.server_nodes = {"n1"};
  request.placement = "default";
  EXPECT_EQ(plan_hetpipe(request).server->nodes, std::vector<std::string>{"n1"});
}

TEST(Planner, EverythingWrongAtOnce) {
  PlanRequest request = request_of(kPool, 4);
  request.system = "hetpype";
  request.policy = "best";
  request.clock_distance = -1;
  request.placement = "nowhere";
  request.push_precision = "bf17";
  request.server_nodes = {"n9"};
  const std::string error = user_error([&] { plan_hetpipe(request); });
  for (const char* part :
       {"--system: unknown system 'hetpype' (did you mean 'hetpipe'?)",
        "--policy: unknown policy 'best' (known: np, ed, hd, search)", "--clock-distance: -1",
        "--placement: unknown placement", "--push-precision: unknown precision 'bf17'", "'n9'"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

}  // namespace planner_test
}  // namespace hetpipe
