// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_memory.h"

#include <gtest/gtest.h>

#include <random>

#include "partitioner/cost/memory.h"

namespace hetpipe {
namespace dapple_memory_test {

Profile profile_of(std::mt19937& random, const Cluster& cluster) {
  Profile profile;
  profile.model = "drawn";
  const int layers = 4 + static_cast<int>(random() % 6);
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs = {l - 1};
    if (l > 1 && random() % 3 == 0) {
      layer.inputs = {static_cast<int>(random() % static_cast<unsigned>(l - 1)), l - 1};
    }
    if (layer.inputs.empty()) layer.input_bytes = 400;
    layer.parameter_bytes = 1000 * static_cast<std::int64_t>(random() % 50);
    layer.kept_for_readers = random() % 3 == 0;
    profile.layers.push_back(layer);
  }
  for (const DeviceKind& kind : cluster.kinds) {
    Measurement m;
    m.device = kind.name;
    m.batch = 4;
    for (int l = 0; l < layers; ++l) {
      const double seconds = 1e-3 * (1 + static_cast<double>(random() % 7));
      m.forward.push_back(seconds);
      m.backward.push_back(2 * seconds);
      m.output_bytes.push_back(static_cast<std::int64_t>(random() % 8000));
      m.stash_bytes.push_back(static_cast<std::int64_t>(random() % 30000));
    }
    profile.measurements.push_back(m);
  }
  return profile;
}

Cluster cluster_of(std::mt19937& random) {
  Cluster cluster;
  for (const char* name : {"a", "b"}) {
    DeviceKind kind;
    kind.name = name;
    kind.memory = 50'000 + static_cast<std::int64_t>(random() % 500'000);
    cluster.kinds.push_back(kind);
  }
  for (const char* name : {"n0", "n1"}) {
    Node node{name, {}};
    for (int d = 0; d < 3; ++d) node.kinds.push_back(static_cast<int>(random() % 2));
    cluster.nodes.push_back(node);
  }
  cluster.intra_node = {10e9, 0, false};
  cluster.inter_node = {1e9, 0, false};
  return cluster;
}

// One to three stages over all devices, node by node.
std::vector<DappleStage> stages_of(std::mt19937& random, int layers) {
  const int count = 1 + static_cast<int>(random() % 3);
  std::vector<DappleStage> stages;
  for (int k = 0; k < count; ++k) {
    DappleStage stage;
    stage.first_layer = k * layers / count;
    stage.end_layer = (k + 1) * layers / count;
    if (count == 1) stage.devices = {{0, 0, 3}, {1, 0, 3}};
    if (count == 2) stage.devices = {{k, 0, 3}};
    if (count == 3) stage.devices = {{0, k, 1}, {1, k, 1}};
    stages.push_back(stage);
  }
  return stages;
}

bool fits(const PlanRequest& request, const Plan& plan, StageId stage) {
  const PlanStage& here = plan.virtual_workers[0].stages[static_cast<std::size_t>(stage.value)];
  for (std::size_t r = 0; r < here.devices.size(); ++r) {
    const std::int64_t need = stage_ledger(plan, request.cluster, request.profile,
                                           VirtualWorkerId{0}, stage, static_cast<int>(r))
                                  .total();
    if (need > request.cluster.kind_of(here.devices[r]).for_plans()) return false;
  }
  return true;
}

// What the search takes for granted is what the ledger says of the plan written from it.
TEST(DappleMemory, IsTheLedgersToTheByte) {
  std::mt19937 random(21);
  int fitting = 0, recomputed = 0, short_of_memory = 0;
  const char* const schedules[] = {"", "dapple-pb", "gpipe", "1f1b-flush", "zb-h1", "zb-h2"};
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE(round);
    PlanRequest request;
    request.system = "dapple";
    request.schedule = schedules[random() % std::size(schedules)];
    request.cluster = cluster_of(random);
    request.profile = profile_of(random, request.cluster);
    Plan plan = blank_plan(request);
    plan.micro_batches = 1 + static_cast<int>(random() % 5);
    plan.minibatch = plan.micro_batches * (6 + static_cast<int>(random() % 12));
    const PlacedLayers placed = placed_layers(request.profile);
    std::vector<DappleStage> stages = stages_of(random, placed.size());
    std::vector<std::vector<int>> kinds;
    for (const Node& node : request.cluster.nodes) kinds.push_back(node.kinds);
    DappleMemory memory(request, placed, plan, kinds);
    const bool settled = memory.settle(stages);

    plan.virtual_workers.emplace_back();
    for (const DappleStage& stage : stages) {
      PlanStage planned;
      planned.first_layer = stage.first_layer;
      planned.end_layer = stage.end_layer;
      for (const auto& run : stage.devices) {
        for (int d = run.begin; d < run.begin + run.count; ++d) {
          planned.devices.push_back(
              {request.cluster.nodes[static_cast<std::size_t>(run.node)].name, d});
        }
      }
      plan.virtual_workers[0].stages.push_back(planned);
    }
    share_by_speed(request, plan);
    bool expected = true;
    for (std::size_t k = 0; k < stages.size() && expected; ++k) {
      const StageId stage{static_cast<int>(k)};
      PlanStage& planned = plan.virtual_workers[0].stages[k];
      if (fits(request, plan, stage)) {
        EXPECT_FALSE(stages[k].recompute) << "stage " << k;
        ++fitting;
        continue;
      }
      planned.recompute = true;
      expected = fits(request, plan, stage);
      if (expected) {
        EXPECT_TRUE(stages[k].recompute) << "stage " << k;
      }
      recomputed += expected;
      short_of_memory += !expected;
    }
    EXPECT_EQ(settled, expected);
  }
  EXPECT_GT(fitting, 100);
  EXPECT_GT(recomputed, 50);
  EXPECT_GT(short_of_memory, 50);
}

}  // namespace dapple_memory_test
}  // namespace hetpipe
