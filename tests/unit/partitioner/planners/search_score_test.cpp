// SPDX-License-Identifier: Apache-2.0
// What the search takes for a fit and for a plan's speed, alone and beside other searches.
#include "partitioner/planners/search_score.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/planner.h"
#include "partitioner/planners/search_smaller_pools.h"
#include "partitioner/simulator/simulate.h"
#include "six_devices.h"

namespace hetpipe {
namespace search_score_test {

// Updates take longer by some optimizers, activations cost something, and the last layer has the
// first one's parameters.
PlanRequest six_devices() {
  PlanRequest request = test::six_devices(SystemChoice::requested);
  for (Measurement& m : request.profile.change().measurements) {
    m.update.assign(12, 0.1e-3);
    m.damped_update.assign(12, 0.2e-3);
    m.orthogonal_update.assign(12, 0.4e-3);
    m.output_bytes.assign(12, 500'000);
    m.stash_bytes = m.output_bytes;
  }
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 400'000;
  request.profile.change().layers.back().shares = request.profile->layers.front().name;
  request.minibatch = 32;
  return request;
}

// Two replicas of one kind with unequal shares: the larger share decides, wherever it stands.
TEST(SearchScores, FitsByTheLargestOfUnequalShares) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  request.profile = test::chain_of(2, {"a"}, [](const auto&) { return 1e-3; });
  for (Measurement& m : request.profile.change().measurements) {
    m.output_bytes.assign(2, 32'000'000);
    m.stash_bytes = m.output_bytes;
  }
  request.system = "dapple";
  Plan plan = blank_plan(request);
  plan.minibatch = 32;
  plan.virtual_workers.resize(1);
  PlanStage stage;
  stage.end_layer = 2;
  stage.devices = request.cluster.devices();
  stage.shares = {8, 24};
  plan.virtual_workers[0].stages = {stage};
  const auto bytes = [&](int replica) {
    return stage_ledger(plan, request.cluster, request.profile, VirtualWorkerId{0}, StageId{0},
                        replica)
        .total();
  };
  ASSERT_LT(bytes(0), bytes(1));
  for (const auto& shares : {std::vector<int>{8, 24}, std::vector<int>{24, 8}}) {
    const std::int64_t most = std::max(bytes(0), bytes(1));
    plan.virtual_workers[0].stages[0].shares = shares;
    request.cluster.kinds[0].memory = most;
    EXPECT_TRUE(PlanScores(request.cluster, request.profile).fits(plan));
    request.cluster.kinds[0].memory = most - 1;
    EXPECT_FALSE(PlanScores(request.cluster, request.profile).fits(plan));
  }
}

// What a search remembers of ledgers and costs changes none of them.
TEST(SearchScores, AreThoseOfLedgersAndSimulations) {
  PlanRequest request = six_devices();
  for (const char* system : {"hetpipe", "zero-bubble", "gpipe", "xpipe"}) {
    request.system = system;
    request.search.systems = SystemChoice::requested;
    request.policy = "search";
    const Plan plan = make_plan(request);
    PlanScores scores(request.cluster, request.profile);
    for (int again = 0; again < 2; ++again) {
      EXPECT_TRUE(scores.fits(plan)) << system;
      EXPECT_DOUBLE_EQ(*scores.throughput(plan),
                       simulate(plan, request.cluster, request.profile).throughput)
          << system;
    }
    std::int64_t most = 0;
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
        most = std::max(
            most, stage_ledger(plan, request.cluster, request.profile,
                               VirtualWorkerId{static_cast<int>(vw)}, StageId{static_cast<int>(k)})
                      .total());
      }
    }
    Cluster tight = request.cluster;
    for (DeviceKind& kind : tight.kinds) kind.memory = most;
    EXPECT_TRUE(PlanScores(tight, request.profile).fits(plan)) << system;
    for (DeviceKind& kind : tight.kinds) kind.memory = most - 1;
    EXPECT_FALSE(PlanScores(tight, request.profile).fits(plan)) << system;
  }
}

// Three minibatches of flushed pipelines that wait for each other are simulated, which takes less
// than half of the work and leaves the steady pace to be asked; of others all.
TEST(SearchScores, AboutAreOfFewMinibatches) {
  PlanRequest request = six_devices();
  request.search.systems = SystemChoice::requested;
  request.policy = "search";
  for (const char* system : {"gpipe", "hetpipe"}) {
    request.system = system;
    const Plan plan = make_plan(request);
    ASSERT_GT(plan.virtual_workers.size(), 1U);
    SimulationRequest few;
    if (!plan.server) few.minibatches = 3;
    PlanScores scores(request.cluster, request.profile);
    EXPECT_DOUBLE_EQ(*scores.about(plan),
                     simulate(plan, request.cluster, request.profile, few).throughput);
    const std::int64_t actions = scores.actions();
    const double steady = simulate(plan, request.cluster, request.profile).throughput;
    EXPECT_DOUBLE_EQ(*scores.throughput(plan), steady);
    EXPECT_EQ(scores.actions() > 2 * actions, !plan.server) << system;
  }
}

// A worker alone takes between rounds what it takes where its gradients are all-reduced with
// nobody, and seeing that takes a fraction of the actions.
TEST(SearchScores, OfOneWorkerAloneNeedNoRounds) {
  PlanRequest request = six_devices();
  request.system = "data-parallel";
  request.sync = "outer";
  Plan plan = make_plan(request);
  ASSERT_GT(plan.server->round, 1);
  PlanScores rounds(request.cluster, request.profile);
  const double seconds = *rounds.alone(plan, 0);
  PlanScores whole(request.cluster, request.profile);
  ASSERT_TRUE(whole.throughput(plan));
  EXPECT_LT(4 * rounds.actions(), whole.actions());
  plan.sync = "all-reduce";
  plan.server.reset();
  plan.virtual_workers.resize(1);
  EXPECT_DOUBLE_EQ(seconds, simulate(plan, request.cluster, request.profile).iteration_seconds);
}

// What stands in a plan, each changed: all that its times hang on, and some that they do not.
std::vector<Plan> variants(const Plan& plan) {
  std::vector<Plan> all{plan};
  const auto vary = [&](const std::function<void(Plan&)>& change) {
    Plan other = plan;
    change(other);
    if (other == plan || !why_senseless(other).empty()) return;
    all.push_back(std::move(other));
  };
  for (const std::string& weights : sensible_weights(composition(plan))) {
    vary([&](Plan& p) { p.weights = weights; });
  }
  vary([](Plan& p) { p.optimizer = "adam"; });
  vary([](Plan& p) { p.minibatch = 64; });
  vary([](Plan& p) { p.micro_batches = p.micro_batches == 2 ? 4 : 2; });
  vary([](Plan& p) { ++p.in_flight; });
  vary([](Plan& p) { p.virtual_workers[0].stages[0].recompute = true; });
  vary([](Plan& p) { p.virtual_workers[0].minibatch = 16; });
  vary([](Plan& p) {  // one layer across the first cut
    auto& stages = p.virtual_workers[0].stages;
    if (stages.size() < 2) return;
    const bool one = stages[1].end_layer - stages[1].first_layer == 1;
    stages[1].first_layer = stages[0].end_layer += one ? -1 : 1;
  });
  vary([](Plan& p) {
    auto& stages = p.virtual_workers[0].stages;
    if (stages.size() > 1) std::swap(stages.front().devices, stages.back().devices);
  });
  vary([](Plan& p) { std::reverse(p.virtual_workers.begin(), p.virtual_workers.end()); });
  vary([](Plan& p) {
    if (p.virtual_workers.size() > 1) p.virtual_workers.pop_back();
  });
  if (!plan.server) return all;
  vary([](Plan& p) { ++p.server->clock_distance; });
  vary([](Plan& p) { p.server->round = 2; });
  vary([](Plan& p) { p.server->nodes = {"n2"}; });
  vary([](Plan& p) { p.server->push_precision = "bf16"; });
  vary([](Plan& p) { p.server->pull = p.server->pulls_newest() ? "bound" : "newest"; });
  return all;
}

std::vector<Plan> plans_of_all_systems(PlanRequest request) {
  std::vector<Plan> plans;
  for (const System& system : systems()) {
    request.system = system.name;
    request.policy.reset();
    if (system.planner == PlannerRule::hetpipe) request.policy = "ed";
    for (const Plan& plan : variants(make_plan(request))) plans.push_back(plan);
  }
  return plans;
}

// A search with what others have simulated finds what it would find without them, in as many
// actions: in the whole pool, and in one with a device less, where others have its name.
TEST(SearchScores, OfOtherSearchesAreItsOwn) {
  const PlanRequest request = six_devices();
  const auto shared = std::make_shared<SimulatedPlans>();
  PlanRequest less = request;
  less.cluster = without_device(request.cluster, {"n1", 0});
  std::int64_t simulations = 0;
  std::size_t asked = 0;
  for (const PlanRequest& pool : {request, less}) {
    for (const Plan& plan : plans_of_all_systems(pool)) {
      PlanScores alone(pool.cluster, pool.profile);
      PlanScores beside(pool.cluster, pool.profile, shared);
      const auto throughput = alone.throughput(plan);
      EXPECT_EQ(beside.throughput(plan), throughput) << to_toml(plan);
      for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
        EXPECT_EQ(beside.alone(plan, vw), alone.alone(plan, vw)) << to_toml(plan);
      }
      EXPECT_EQ(beside.actions(), alone.actions());
      asked += throughput.has_value();
      simulations += beside.simulations() - alone.simulations();
    }
  }
  EXPECT_GT(asked, 200U);
  EXPECT_LT(simulations, -100);
}

// Of two systems that differ in the versions of weights alone, one is simulated; of those whose
// updates differ, and of a name that is another device in a smaller pool, both are.
TEST(SearchScores, TellWhatTakesEquallyLong) {
  PlanRequest request = six_devices();
  request.system = "pipedream";
  Plan plan = make_plan(request);
  plan.optimizer = "sgd-momentum";
  const auto shared = std::make_shared<SimulatedPlans>();
  const auto simulations_of = [&](const Plan& asked, const Cluster& cluster) {
    PlanScores scores(cluster, request.profile, shared);
    EXPECT_TRUE(scores.throughput(asked));
    return scores.simulations();
  };
  EXPECT_EQ(simulations_of(plan, request.cluster), 1);
  Plan other = plan;
  other.system = "spectrain";
  EXPECT_EQ(simulations_of(other, request.cluster), 0);
  other = plan;
  other.optimizer = "adam";
  EXPECT_EQ(simulations_of(other, request.cluster), 1);
  // One device of n1: slow where the first one is missing.
  other = plan;
  other.virtual_workers.resize(1);
  PlanStage stage = other.virtual_workers[0].stages[0];
  stage.first_layer = 0;
  stage.end_layer = 12;
  stage.shares.clear();
  stage.devices = {{"n1", 0}};
  other.virtual_workers[0].stages = {stage};
  EXPECT_EQ(simulations_of(other, request.cluster), 1);
  EXPECT_EQ(simulations_of(other, without_device(request.cluster, {"n1", 0})), 1);
}

// What a device computes is the least that any simulation gives, and all of it where nobody waits.
TEST(SearchScores, NothingIsFasterThanItsBusiestDevice) {
  const PlanRequest request = six_devices();
  for (const Plan& plan : plans_of_all_systems(request)) {
    PlanScores scores(request.cluster, request.profile);
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      const auto seconds = scores.alone(plan, vw);
      if (!seconds) continue;
      const double least = scores.least_seconds(plan, vw);
      EXPECT_LE(least, *seconds * (1 + 1e-9)) << to_toml(plan);
      const auto& stages = plan.virtual_workers[vw].stages;
      const bool one = stages.size() == 1 && stages[0].devices.size() == 1;
      if (one && !plan.server) {
        EXPECT_NEAR(least, *seconds, 1e-9 * least) << to_toml(plan);
      }
    }
  }
}

}  // namespace search_score_test
}  // namespace hetpipe
