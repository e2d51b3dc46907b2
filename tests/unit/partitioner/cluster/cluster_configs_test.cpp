// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/planner.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace cluster_configs_test {

std::vector<std::filesystem::path> cluster_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// A chain measured on every kind of the cluster, faster by peak where that is known.
Profile chain_for(const Cluster& cluster) {
  std::vector<std::string> kinds{"cpu"};
  for (const DeviceKind& kind : cluster.kinds) {
    if (!kind.emulate) kinds.push_back(kind.name);
  }
  return test::chain_of(24, kinds, [&](const std::string& name) {
    for (const DeviceKind& kind : cluster.kinds) {
      if (kind.name == name && kind.peak_flops > 0) return 1e10 / kind.peak_flops;
    }
    return 1e-3;
  });
}

// A virtual worker per node covers all devices, and each sort of node is cut so that it fits.
void expect_nodes_are_cut(const PlanRequest& request) {
  const Cluster& cluster = request.cluster;
  const std::vector<double> speeds(cluster.kinds.size(), 1);
  const Allocation workers = allocate(cluster, "np", speeds, std::nullopt);
  std::size_t devices = 0;
  std::set<std::vector<std::string>> sorts;
  for (const auto& worker : workers) {
    devices += worker.size();
    std::vector<std::string> kinds;
    for (const DeviceName& device : worker) kinds.push_back(cluster.kind_of(device).name);
    if (!sorts.insert(kinds).second) continue;
    PartitionRequest part;
    part.devices = worker;
    part.minibatch = 32;
    part.in_flight = static_cast<int>(worker.size());
    const Partition cut = partition(cluster, request.profile, part);
    EXPECT_TRUE(fits(cluster, cut)) << kinds[0];
    EXPECT_GT(cut.bottleneck, 0) << kinds[0];
  }
  EXPECT_EQ(devices, cluster.devices().size());
  EXPECT_EQ(sorts.size(), cluster.kinds.size());
}

constexpr std::size_t kManyDevices = 128;  // beyond, unit tests do not simulate whole plans

// Every cluster file of the project is read, planned and survives its own text.
TEST(ClusterConfigs, AllLoadAndPlan) {
  for (const auto& file : cluster_files()) {
    SCOPED_TRACE(file.string());
    PlanRequest request;
    request.cluster = load_cluster(file);
    EXPECT_EQ(parse_cluster(to_toml(request.cluster), "again"), request.cluster);
    request.profile = chain_for(request.cluster);
    if (request.cluster.devices().size() > kManyDevices) {
      expect_nodes_are_cut(request);
      continue;
    }
    for (const auto& policy :
         std::vector<std::optional<std::string>>{std::nullopt, "np", "ed", "hd"}) {
      request.policy = policy;
      const Plan plan = make_plan(request);
      check_plan(plan, "plan", &request.cluster, 24);
      EXPECT_GT(plan.predicted->throughput, 0) << policy.value_or("best");
      EXPECT_NE(plan_table(plan, request.cluster, request.profile), "");
    }
  }
  EXPECT_GE(cluster_files().size(), 13u);
}

// Like GPT-2, a fifth of whose parameters are the first layer's and the last but one's: every pool
// pipelines it, by HetPipe's own planner.
TEST(ClusterConfigs, PipelineModelsWithTiedWeights) {
  for (const auto& file : cluster_files()) {
    SCOPED_TRACE(file.string());
    PlanRequest request;
    request.cluster = load_cluster(file);
    if (request.cluster.devices().size() > kManyDevices) continue;
    request.profile = chain_for(request.cluster);
    std::int64_t memory = request.cluster.kinds.front().memory;
    for (const DeviceKind& kind : request.cluster.kinds) memory = std::min(memory, kind.memory);
    for (ProfileLayer& layer : request.profile.change().layers)
      layer.parameter_bytes = memory / 500;
    request.profile.change().layers[0].parameter_bytes = memory / 80;
    request.profile.change().layers[22].parameter_bytes = memory / 80;
    request.profile.change().layers[22].shares = request.profile->layers[0].name;
    request.in_flight = 2;
    EXPECT_EQ(planner_of(request), PlannerRule::hetpipe);
    const Plan plan = make_plan(request);
    check_plan(plan, "plan", &request.cluster, 24);
    EXPECT_TRUE(std::any_of(plan.virtual_workers.begin(), plan.virtual_workers.end(),
                            [](const auto& vw) { return vw.stages.size() > 1; }));
  }
}

// What a file's first lines promise.
TEST(ClusterConfigs, AreWhatTheySay) {
  const auto cluster = [](const std::string& name) {
    return load_cluster(std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs" / name);
  };
  const Cluster large = cluster("six-generations-1024.toml");
  EXPECT_EQ(large.devices().size(), 1024u);
  EXPECT_EQ(large.kinds.size(), 6u);
  EXPECT_EQ(large.nodes.size(), 152u);
  for (const char* name : {"dapple-a.toml", "dapple-b.toml", "dapple-c.toml"}) {
    EXPECT_EQ(cluster(name).devices().size(), 16u) << name;
  }
  EXPECT_EQ(cluster("dapple-a.toml").link({"s0", 0}, {"s1", 0}).bandwidth, 25e9 / 8);
  EXPECT_EQ(cluster("dapple-c.toml").link({"s00", 0}, {"s15", 0}).bandwidth, 10e9 / 8);
  const Cluster amp = cluster("amp-v100-t4.toml");
  EXPECT_EQ(amp.link({"p3-0", 0}, {"p3-0", 1}).bandwidth, 170e9 / 8);
  EXPECT_EQ(amp.link({"g4", 0}, {"g4", 1}).bandwidth, 50e9 / 8);
  EXPECT_EQ(amp.link({"p3-0", 0}, {"g4", 1}).bandwidth, 10e9 / 8);
  const Cluster pool = cluster("titan-2080-3090.toml");
  EXPECT_EQ(pool.devices().size(), 32u);
  EXPECT_LT(pool.link({"ampere", 0}, {"titan", 0}).bandwidth, 0.12e9);
  EXPECT_GT(pool.link({"turing0", 0}, {"titan", 0}).bandwidth, 2.8e9);
  for (const char* name : {"lab-drawer.toml", "lab-corridor.toml", "lab-server-room.toml"}) {
    const Cluster lab = cluster(name);
    EXPECT_TRUE(lab.nodes.back().kinds.empty()) << name;  // a server without GPUs
    for (const Node& node : lab.nodes) EXPECT_LE(node.kinds.size(), 3u) << name;
  }
  // Rehearsed on one machine, whose cores do the arithmetic of all devices in the time they wait.
  for (const char* name :
       {"fashion-quickstart.toml", "local-four-generations.toml", "local-straggler.toml"}) {
    const Cluster local = cluster(name);
    double cores = 0;  // that are busy
    for (const DeviceName& device : local.devices()) {
      ASSERT_TRUE(local.kind_of(device).emulate) << name;
      cores += 1 / local.kind_of(device).emulate->slowdown;
    }
    EXPECT_LT(cores, 1) << name;  // of two: the rest is for messages and the system
    EXPECT_TRUE(local.inter_node.emulate) << name;
  }
}

// The paper's own experiment without its machines: both networks, estimated.
TEST(ClusterConfigs, ThePapersNetworksArePlannedFromEstimates) {
  const auto folder = std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs";
  for (const char* model : {"vgg19.toml", "resnet152.toml"}) {
    PlanRequest request;
    request.cluster = load_cluster(folder / "hetpipe-paper.toml");
    request.profile = load_profile(folder / "profiles" / model);
    request.policy = "ed";
    request.minibatch = 32;
    const Plan plan = make_plan(request);
    EXPECT_EQ(plan.virtual_workers.size(), 4u) << model;
    EXPECT_GT(plan.predicted->throughput, 0) << model;
    const Profile profile = with_estimates(request.profile, request.cluster, Precision::fp32);
    const auto unmeasured = unmeasured_times(plan, request.cluster, profile);
    ASSERT_EQ(unmeasured.size(), 4u) << model;
    for (const UnmeasuredTimes& one : unmeasured) EXPECT_EQ(one.origin, TimeOrigin::estimated);
  }
}

// hd is VVQQ VVQQ RRGG RRGG, as in the paper, on both files.
TEST(ClusterConfigs, HybridDistributionIsThePapers) {
  const auto folder = std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs";
  const auto nodes_of = [&](const char* file, Profile profile) {
    PlanRequest request;
    request.cluster = load_cluster(folder / file);
    request.profile = with_estimates(std::move(profile), request.cluster, Precision::fp32);
    std::multiset<std::string> workers;
    for (const auto& devices : allocate(request.cluster, "hd", kind_speeds(request, 32), {})) {
      std::string nodes;
      for (const DeviceName& device : devices) nodes += device.node;
      workers.insert(nodes);
    }
    return workers;
  };
  const std::multiset<std::string> paper{"rrgg", "rrgg", "vvqq", "vvqq"};
  for (const char* model : {"vgg19.toml", "resnet152.toml"}) {
    EXPECT_EQ(nodes_of("hetpipe-paper.toml", load_profile(folder / "profiles" / model)), paper);
  }
  EXPECT_EQ(nodes_of("hetpipe-paper-scaled.toml",
                     test::chain_of(4, {"cpu"}, [](const std::string&) { return 1e-3; })),
            paper);
}

TEST(ClusterConfigs, TwoNodesNeedALinkBetweenThem) {
  EXPECT_THAT(test::user_error([] {
                parse_cluster(
                    "format = 1\n[[node]]\nname = \"n[0-1]\"\ndevices = [\"t4\"]\n"
                    "[link.intra_node]\nbandwidth = 1e9\n",
                    "c.toml");
              }),
              testing::HasSubstr("[link.inter_node] is missing (the cluster has several nodes). "
                                 "Add it with a bandwidth."));
}

}  // namespace cluster_configs_test
}  // namespace hetpipe
