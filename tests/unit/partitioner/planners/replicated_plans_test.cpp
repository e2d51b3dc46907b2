// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "../cases.h"
#include "../shared_profiles.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/dapple.h"
#include "partitioner/planners/data_parallel.h"
#include "partitioner/planners/pipedream.h"

namespace hetpipe {
namespace replicated_plans_test {

using testing::ElementsAre;
using testing::HasSubstr;

PlanRequest request_for(Cluster cluster, Profile profile, const std::string& system) {
  PlanRequest request;
  request.cluster = std::move(cluster);
  request.profile = std::move(profile);
  request.system = system;
  return request;
}

// What every planner promises: check_plan passes, every replica has a sample, every stage fits.
void expect_valid(const PlanRequest& request, const Plan& plan) {
  EXPECT_NO_THROW(check_plan(plan, "plan.toml", &request.cluster,
                             static_cast<int>(request.profile->layers.size())));
  for (std::size_t v = 0; v < plan.virtual_workers.size(); ++v) {
    const VirtualWorkerId id{static_cast<int>(v)};
    const int samples = plan.minibatch_of(id) / plan.micro_batches;
    const auto& stages = plan.virtual_workers[v].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      EXPECT_GE(samples, static_cast<int>(stages[k].devices.size()));
      for (const int share : stages[k].shares) EXPECT_GE(share, 1);
      ASSERT_TRUE(stages[k].predicted.has_value());
      EXPECT_EQ(stages[k].predicted->memory, stage_ledger(plan, request.cluster, request.profile,
                                                          id, StageId{static_cast<int>(k)})
                                                 .total());
      for (const DeviceName& device : stages[k].devices) {
        EXPECT_LE(stages[k].predicted->memory, request.cluster.kind_of(device).memory);
      }
    }
  }
  ASSERT_TRUE(plan.predicted.has_value());
  EXPECT_GT(plan.predicted->throughput, 0);
  EXPECT_GT(plan.predicted->bottleneck, 0);
  EXPECT_EQ(parse_plan(to_toml(plan), "plan.toml").virtual_workers.size(),
            plan.virtual_workers.size());
}

int devices_of(const Plan& plan) {
  std::set<DeviceName> devices;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      devices.insert(stage.devices.begin(), stage.devices.end());
    }
  }
  return static_cast<int>(devices.size());
}

// One node needs no link to another, and its cluster file may leave that out.
TEST(PipedreamPlans, OfOneNodeWithoutALinkBetweenNodes) {
  Cluster cluster = test::cluster_of({{"card", "card"}}, 1'000'000'000);
  cluster.inter_node = {};
  const PlanRequest request = request_for(
      cluster, test::chain_of(7, {"card"}, [](const auto&) { return 1e-3; }), "pipedream");
  expect_valid(request, make_plan(request));
}

// The published objective knows nothing of messages that share an interface: a search also gets
// what is cut for slower links where that simulates faster, and never a slower plan.
TEST(PipedreamPlans, OfASearchAreCutForSlowerLinksToo) {
  int faster = 0;
  for (const double bandwidth : {0.2e9, 1e9, 3e9}) {
    Cluster cluster = test::cluster_of({{"card"}, {"card"}, {"card"}, {"card"}}, 1'000'000'000'000);
    cluster.inter_node = {bandwidth, 50e-6, false};
    Profile profile = test::chain_of(12, {"card"}, [](const auto&) { return 4e-3; });
    for (ProfileLayer& layer : profile.layers) layer.parameter_bytes = 10'000'000;
    profile.measurements[0].output_bytes.assign(12, 40'000'000);
    profile.measurements[0].stash_bytes.assign(12, 40'000'000);
    PlanRequest request = request_for(cluster, profile, "pipedream");
    request.minibatch = 32;
    const double once = make_plan(request).predicted->throughput;
    request.of_search = true;
    const double best = make_plan(request).predicted->throughput;
    EXPECT_GE(best, once * (1 - 1e-9)) << bandwidth;
    faster += best > 1.5 * once;
  }
  EXPECT_GT(faster, 0);
}

// The objective of PipeDream's published optimizer, activation transfers counted, by way of the
// whole planner: nodes of equal devices, a machine's devices as the inner level.
struct PublishedPlan {
  const char* file;
  int batch;
  int nodes;
  int per_node;
  double across;        // bytes/s between nodes; within one 1e10
  double seconds;       // per minibatch of a worker
  bool better = false;  // ours is: the published optimizer never lets a part of a machine rest
};

class PublishedPlans : public testing::TestWithParam<PublishedPlan> {};

TEST_P(PublishedPlans, SameObjective) {
  const PublishedPlan& of = GetParam();
  const auto path = test::shared_profile("pipedream", of.file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const std::vector<std::string> node(static_cast<std::size_t>(of.per_node), "v100");
  Cluster cluster = test::cluster_of(
      std::vector<std::vector<std::string>>(static_cast<std::size_t>(of.nodes), node),
      1'000'000'000'000);
  cluster.intra_node.bandwidth = 1e10;
  cluster.inter_node.bandwidth = of.across;
  const PlanRequest request =
      request_for(cluster, load_profile(path, ProfileOrigin{"v100", of.batch}), "pipedream");
  const Plan plan = make_plan(request);
  expect_valid(request, plan);
  if (of.better) {
    EXPECT_LT(plan.predicted->bottleneck, of.seconds * (1 - 1e-3));
    EXPECT_LT(devices_of(plan), of.nodes * of.per_node);
  } else {
    EXPECT_NEAR(plan.predicted->bottleneck, of.seconds, 1e-6 * of.seconds);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, PublishedPlans,
    testing::Values(PublishedPlan{"vgg16.txt", 128, 4, 1, 1e9, 0.205520896},
                    PublishedPlan{"vgg16.txt", 128, 16, 1, 1.25e9, 0.05479489083076923},
                    PublishedPlan{"vgg16.txt", 128, 4, 4, 1.25e9, 0.06713399693333331},
                    PublishedPlan{"alexnet.txt", 256, 16, 1, 1.25e9, 0.0150994944},
                    PublishedPlan{"resnet50.txt", 128, 16, 1, 1.25e9, 0.04384779004444448},
                    PublishedPlan{"resnet50.txt", 128, 4, 4, 1.25e9, 0.04320846919999997},
                    PublishedPlan{"resnet101.txt", 64, 16, 1, 1.25e9, 0.041819444},
                    PublishedPlan{"gnmt.txt", 32, 16, 1, 1.25e9, 0.017125},
                    PublishedPlan{"gnmt.txt", 32, 4, 4, 1.25e9, 0.011081, true}));

// VGG-16 as PipeDream measured it, on its own cluster of four workers.
TEST(PipedreamPlan, PublishedVector) {
  const auto path = test::shared_profile("pipedream", "vgg16.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  Cluster cluster = test::cluster_of({{"v100"}, {"v100"}, {"v100"}, {"v100"}}, 1'000'000'000'000);
  const Profile profile = load_profile(path, ProfileOrigin{"v100", 64});
  const PlanRequest request = request_for(cluster, profile, "pipedream");
  const Plan plan = plan_pipedream(request);
  expect_valid(request, plan);
  // The profile's layer 0 is the input.
  const auto& stages = plan.virtual_workers[0].stages;
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].end_layer, 1 + 17);
  EXPECT_EQ(stages[0].devices.size(), 3u);
  EXPECT_EQ(stages[1].end_layer, 1 + 40);
  EXPECT_NEAR(plan.predicted->bottleneck, 0.205520896, 1e-6 * 0.2055);
}

TEST(PipedreamPlan, StagesKeepToMachines) {
  const auto path = test::shared_profile("pipedream", "vgg16.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const std::vector<std::string> node(4, "v100");
  Cluster cluster = test::cluster_of({node, node, node, node}, 1'000'000'000'000);
  cluster.intra_node.bandwidth = 1e10;
  cluster.inter_node.bandwidth = 1.25e9;
  const PlanRequest request =
      request_for(cluster, load_profile(path, ProfileOrigin{"v100", 64}), "pipedream");
  const Plan plan = plan_pipedream(request);
  expect_valid(request, plan);
  EXPECT_NEAR(plan.predicted->bottleneck, 0.06713399693333331, 1e-6 * 0.067);
  const auto& stages = plan.virtual_workers[0].stages;
  ASSERT_EQ(stages[0].devices.size(), 12u);
  for (std::size_t k = 1; k < stages.size(); ++k) {
    for (const DeviceName& device : stages[k].devices) EXPECT_EQ(device.node, "n3");
  }
}

class AnyCluster : public testing::TestWithParam<const char*> {};

TEST_P(AnyCluster, EveryPlannerMakesAValidPlan) {
  const std::string which = GetParam();
  std::vector<std::vector<std::string>> nodes{{"a"}};
  if (which == "pair") nodes = {{"a", "a"}};
  if (which == "mixed") nodes = {{"a", "b"}, {"b", "b"}};
  if (which == "ragged") nodes = {{"a", "a", "a"}, {"b"}, {}, {"a", "b"}};
  if (which == "four kinds") {
    nodes = {
        {"a", "a", "a", "a"}, {"b", "b", "b", "b"}, {"c", "c", "c", "c"}, {"d", "d", "d", "d"}};
  }
  Cluster cluster = test::cluster_of(nodes, 1'000'000'000);
  Profile profile = test::chain_of(
      12, {"a", "b", "c", "d"}, [](const std::string& kind) { return 1e-3 * (1 + kind[0] - 'a'); });
  for (ProfileLayer& layer : profile.layers) layer.parameter_bytes = 400'000;
  for (const char* system :
       {"pipedream", "pipedream-2bw", "dapple", "data-parallel", "ssp", "asp"}) {
    for (const std::optional<int> minibatch : {std::optional<int>{}, std::optional<int>{8}}) {
      PlanRequest request = request_for(cluster, profile, system);
      request.minibatch = minibatch;
      SCOPED_TRACE(which + " " + system + (minibatch ? " 8" : ""));
      const PlannerRule rule = planner_of(request);
      const Plan plan = rule == PlannerRule::dapple      ? plan_dapple(request)
                        : rule == PlannerRule::pipedream ? plan_pipedream(request)
                                                         : plan_data_parallel(request);
      expect_valid(request, plan);
      EXPECT_EQ(plan.system, system);
      if (minibatch) {
        EXPECT_EQ(plan.minibatch, 8);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Clusters, AnyCluster,
                         testing::Values("one", "pair", "mixed", "ragged", "four kinds"));

TEST(DataParallelPlan, SharesGoBySpeed) {
  const Cluster cluster = test::cluster_of({{"a", "b"}}, 1'000'000'000);
  const Profile profile = test::chain_of(
      4, {"a", "b"}, [](const std::string& kind) { return kind == "a" ? 1e-3 : 3e-3; });
  const PlanRequest request = request_for(cluster, profile, "data-parallel");
  const Plan plan = plan_data_parallel(request);
  EXPECT_EQ(plan.minibatch, 64);
  EXPECT_THAT(plan.virtual_workers[0].stages[0].shares, ElementsAre(48, 16));
  // 4 layers, 3 ms each at batch 32 on a: 48 samples; and half of 2 x 4000 bytes over 10 GB/s.
  EXPECT_NEAR(plan.predicted->bottleneck, 4 * 3e-3 * 48 / 32 + 4000 / 10e9 + 2 * 10e-6, 1e-9);
}

TEST(DataParallelPlan, DevicesThatCannotHoldTheModelAreLeftOut) {
  Cluster cluster = test::cluster_of({{"a", "b"}, {"a"}}, 1'000'000'000);
  cluster.kinds[1].memory = 1000;
  const Profile profile = test::chain_of(4, {"a", "b"}, [](const std::string&) { return 1e-3; });
  PlanRequest request = request_for(cluster, profile, "data-parallel");
  EXPECT_EQ(devices_of(plan_data_parallel(request)), 2);
  request.system = "asp";
  EXPECT_EQ(plan_data_parallel(request).virtual_workers.size(), 2u);
  for (DeviceKind& kind : request.cluster.kinds) kind.memory = 1000;
  EXPECT_THAT(test::user_error([&] { plan_data_parallel(request); }),
              HasSubstr("no device can hold the whole model"));
}

TEST(PipedreamPlan, SmallMemoriesGetMoreStages) {
  const auto plan_with = [](std::int64_t memory) {
    Cluster cluster = test::cluster_of({{"a", "a", "a", "a"}}, memory);
    cluster.intra_node.bandwidth = 1e12;
    Profile profile = test::chain_of(7, {"a"}, [](const std::string&) { return 1e-3; });
    for (ProfileLayer& layer : profile.layers) layer.parameter_bytes = 1'000'000;
    const PlanRequest request = request_for(cluster, profile, "pipedream");
    const Plan plan = plan_pipedream(request);
    expect_valid(request, plan);
    return plan;
  };
  EXPECT_EQ(plan_with(1'000'000'000).virtual_workers[0].stages.size(), 1u);
  EXPECT_GT(plan_with(20'000'000).virtual_workers[0].stages.size(), 1u);
}

// One stage over both, as slow links cost nothing here: samples 3 : 1 of each micro-batch.
TEST(DapplePlan, SharesGoBySpeed) {
  Cluster cluster = test::cluster_of({{"a", "b"}}, 1'000'000'000);
  cluster.intra_node = {1e15, 0, false};
  const Profile profile = test::chain_of(
      4, {"a", "b"}, [](const std::string& kind) { return kind == "a" ? 1e-3 : 3e-3; });
  PlanRequest request = request_for(cluster, profile, "dapple");
  request.minibatch = 64;
  request.micro_batches = 1;
  const Plan plan = plan_dapple(request);
  expect_valid(request, plan);
  ASSERT_EQ(plan.virtual_workers[0].stages.size(), 1u);
  EXPECT_THAT(plan.virtual_workers[0].stages[0].shares, ElementsAre(48, 16));
  EXPECT_NEAR(plan.predicted->bottleneck, 4 * 3e-3 * 48 / 32, 1e-9);
}

TEST(DapplePlan, NothingFits) {
  Cluster cluster = test::cluster_of({{"a"}, {"a"}}, 1000);
  const Profile profile = test::chain_of(8, {"a"}, [](const std::string&) { return 1e-3; });
  const PlanRequest request = request_for(cluster, profile, "dapple");
  EXPECT_THAT(test::user_error([&] { plan_dapple(request); }),
              HasSubstr("no plan of DAPPLE's fits"));
}

TEST(ReplicatedPlans, OneVirtualWorkerOnly) {
  PlanRequest request =
      request_for(test::cluster_of({{"a", "a"}}, 1'000'000'000),
                  test::chain_of(4, {"a"}, [](const std::string&) { return 1e-3; }), "dapple");
  request.virtual_workers = 2;
  EXPECT_THAT(test::user_error([&] { plan_dapple(request); }), HasSubstr("--virtual-workers"));
  request.system = "pipedream";
  EXPECT_THAT(test::user_error([&] { plan_pipedream(request); }), HasSubstr("--virtual-workers"));
}

}  // namespace replicated_plans_test
}  // namespace hetpipe
