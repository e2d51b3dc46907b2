// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "../shared_profiles.h"
#include "partitioner/planners/dapple_search.h"
#include "partitioner/planners/replicated.h"

namespace hetpipe {
namespace dapple_latency_test {

TEST(DappleLatency, OneStageIsGradientAccumulation) {
  const std::vector<PipelineBlock> one{{1, 2, 0.5}};
  const DappleLatency latency = dapple_latency(one, 4);
  EXPECT_EQ(latency.pivot, 0);
  EXPECT_DOUBLE_EQ(latency.total(), 4 * 3 + 0.5);
}

// Three stages and the transfers between them; F + B = 3, 0.2, 6, 0.2, 3 and M = 5.
TEST(DappleLatency, PivotIsTheStageThatOutlastsTheOthers) {
  const std::vector<PipelineBlock> blocks{
      {1, 2, 4}, {0.1, 0.1, 0}, {2, 4, 1}, {0.1, 0.1, 0}, {1, 2, 9}};
  const DappleLatency latency = dapple_latency(blocks, 5);
  EXPECT_EQ(latency.pivot, 2);
  EXPECT_DOUBLE_EQ(latency.warm_up, 1 + 0.1 + 2);
  EXPECT_DOUBLE_EQ(latency.steady, 4 * 6);
  // AR_0 + B_0..B_2 = 4 + 6.1; AR_2 + B_2 = 5; AR_4 - (B_2 + B_3 + B_4) = 9 - 6.1.
  EXPECT_DOUBLE_EQ(latency.ending, 10.1);
}

// Table 5 of the paper: BERT-48 in two equal stages, micro-batches of 2 samples. With stages of
// F + B = t and an all-reduce c, L = (M + 1) t + c. Fitted on M = 2 and 8, M = 16 follows.
TEST(DappleLatency, Table5) {
  const auto samples_per_second = [](double at2, double at8) {
    const double seconds2 = 2 * 2 / at2;
    const double seconds8 = 2 * 8 / at8;
    const double t = (seconds8 - seconds2) / 6;
    const double c = seconds2 - 3 * t;
    const std::vector<PipelineBlock> blocks{{t / 3, 2 * t / 3, c}, {t / 3, 2 * t / 3, c}};
    EXPECT_NEAR(dapple_latency(blocks, 2).total(), seconds2, 1e-9);
    EXPECT_NEAR(dapple_latency(blocks, 8).total(), seconds8, 1e-9);
    return 2 * 16 / dapple_latency(blocks, 16).total();
  };
  EXPECT_NEAR(samples_per_second(5.10, 7.60), 8.18, 0.02 * 8.18);
  EXPECT_NEAR(samples_per_second(4.24, 6.23), 6.77, 0.02 * 6.77);  // with recomputation
}

// --- Table 4 ---

// The paper's clusters: 16 V100. Between nodes 25 or 10 Gb/s; inside one the NVLinks of eight GPUs
// carry a ring of 100 GB/s together, as the authors' planner counts them.
DapplePool pool_of(int nodes, int per_node, double gigabits) {
  DapplePool pool;
  pool.nodes.assign(static_cast<std::size_t>(nodes),
                    std::vector<int>(static_cast<std::size_t>(per_node), 0));
  pool.intra_bandwidth = 100e9;
  pool.inter_bandwidth = gigabits * 1e9 / 8;
  return pool;
}

DappleModel model_of(const Profile& profile, int samples) {
  DeviceKind kind;
  kind.name = "v100";
  const LayerCosts costs = costs_on(profile, kind, samples);
  const PlacedLayers placed = placed_layers(profile);
  DappleModel model;
  model.forward = {{0}};
  model.backward = {{0}};
  model.parameter_bytes = {0};
  model.crossing_bytes.assign(static_cast<std::size_t>(placed.size()), 0);
  for (int p = 0; p < placed.size(); ++p) {
    const auto l = static_cast<std::size_t>(placed.layers[static_cast<std::size_t>(p)]);
    model.forward[0].push_back(model.forward[0].back() + costs.forward[l]);
    model.backward[0].push_back(model.backward[0].back() + costs.backward[l]);
    model.parameter_bytes.push_back(model.parameter_bytes.back() +
                                    static_cast<double>(profile.layers[l].parameter_bytes));
    int last = p;
    for (int reader = 0; reader < placed.size(); ++reader) {
      const auto& inputs = placed.inputs[static_cast<std::size_t>(reader)];
      if (std::find(inputs.begin(), inputs.end(), p) != inputs.end()) last = reader;
    }
    for (int cut = p + 1; cut <= last; ++cut) {
      model.crossing_bytes[static_cast<std::size_t>(cut)] +=
          static_cast<double>(costs.output_bytes[l]);
    }
  }
  return model;
}

// The latency of the paper's three shapes, each with its best cut: one stage of 16, two of 8, 16
// of 1. A micro-batch is one profiled batch for each device of a position.
struct Shapes {
  double data_parallel = 0;
  double two_of_eight = 0;
  double straight = 0;
};

Shapes shapes_of(const char* file, int batch, int global_batch, const DapplePool& pool) {
  const Profile profile =
      load_profile(test::shared_profile("dapple", file), ProfileOrigin{"v100", batch});
  const auto best = [&](int stages) {
    const int unit = 16 / stages;
    const DappleModel model = model_of(profile, unit * batch);
    const int micro_batches = global_batch / (unit * batch);
    const int per_node = static_cast<int>(pool.nodes[0].size());
    std::vector<DappleStage> plan(static_cast<std::size_t>(stages));
    for (int d = 0; d < 16; ++d) {
      auto& runs = plan[static_cast<std::size_t>(d / unit)].devices;
      if (runs.empty() || runs.back().node != d / per_node) {
        runs.push_back({d / per_node, d % per_node, 0});
      }
      ++runs.back().count;
    }
    // Cuts: the smallest L by hill climbing from equal work, which for two stages is every cut.
    const int layers = model.layers();
    const auto seconds = [&](std::vector<int> ends) {
      ends.push_back(layers);
      for (std::size_t s = 0; s < plan.size(); ++s) {
        plan[s].first_layer = s == 0 ? 0 : ends[s - 1];
        plan[s].end_layer = ends[s];
        if (plan[s].first_layer >= ends[s]) return 1e30;
      }
      return dapple_latency(dapple_blocks(model, pool, plan), micro_batches).total();
    };
    std::vector<int> ends;
    const auto work = [&](int l) {
      return model.forward[0][static_cast<std::size_t>(l)] +
             model.backward[0][static_cast<std::size_t>(l)];
    };
    for (int s = 1; s < stages; ++s) {
      int end = s;
      while (work(end) < work(layers) * s / stages) ++end;
      ends.push_back(std::min(end, layers - stages + s));
    }
    double least = seconds(ends);
    for (bool better = true; better;) {
      better = false;
      for (std::size_t s = 0; s < ends.size(); ++s) {
        for (int end = 1; end < layers; ++end) {
          std::vector<int> other = ends;
          other[s] = end;
          const double value = seconds(other);
          if (value < least) {
            least = value;
            ends = other;
            better = true;
          }
        }
      }
    }
    return least;
  };
  return {best(1), best(2), best(16)};
}

enum class Shape { data_parallel, two_of_eight, straight };

Shape fastest(const Shapes& shapes) {
  if (shapes.data_parallel < std::min(shapes.two_of_eight, shapes.straight)) {
    return Shape::data_parallel;
  }
  return shapes.two_of_eight < shapes.straight ? Shape::two_of_eight : Shape::straight;
}

TEST(DappleLatency, Table4Rankings) {
  if (!std::filesystem::exists(test::shared_profile("dapple", "bert-48-pbs-2.txt"))) {
    GTEST_SKIP() << "no profiles";
  }
  const DapplePool a = pool_of(2, 8, 25);
  const DapplePool b = pool_of(16, 1, 25);
  const DapplePool c = pool_of(16, 1, 10);
  const auto bert = [](const DapplePool& p) { return shapes_of("bert-48-pbs-2.txt", 2, 64, p); };
  EXPECT_EQ(fastest(bert(a)), Shape::two_of_eight);
  EXPECT_EQ(fastest(bert(b)), Shape::straight);
  EXPECT_EQ(fastest(bert(c)), Shape::straight);
  const auto xlnet = [](const DapplePool& p) { return shapes_of("xlnet-36-pbs-1.txt", 1, 128, p); };
  EXPECT_EQ(fastest(xlnet(a)), Shape::two_of_eight);
  EXPECT_EQ(fastest(xlnet(b)), Shape::two_of_eight);
  EXPECT_EQ(fastest(xlnet(c)), Shape::straight);
  const auto gnmt = [](const DapplePool& p) {
    return shapes_of("gnmt-16-pbs-64.txt", 64, 1024, p);
  };
  EXPECT_EQ(fastest(gnmt(a)), Shape::two_of_eight);
  EXPECT_EQ(fastest(gnmt(b)), Shape::two_of_eight);
  EXPECT_EQ(fastest(gnmt(c)), Shape::straight);
  const auto vgg = [](const DapplePool& p) { return shapes_of("vgg-19-pbs-32.txt", 32, 2048, p); };
  EXPECT_EQ(fastest(vgg(a)), Shape::data_parallel);
}

// The planner itself, on the shipped clusters of the paper: on A the paper's 8:8, elsewhere
// whatever is no slower than the best of the three shapes by the same formula.
TEST(DapplePlan, Table4OnTheShippedClusters) {
  if (!std::filesystem::exists(test::shared_profile("dapple", "bert-48-pbs-2.txt"))) {
    GTEST_SKIP() << "no profiles";
  }
  struct Model {
    const char* file;
    int batch;
    int minibatch;
  };
  for (const char* name : {"a", "b", "c"}) {
    const Cluster cluster =
        load_cluster(std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs" /
                     (std::string("dapple-") + name + ".toml"));
    DapplePool pool = pool_of(static_cast<int>(cluster.nodes.size()),
                              static_cast<int>(cluster.nodes[0].kinds.size()), 1);
    const SlowestLinks links = slowest_links(cluster);
    pool.intra_bandwidth = links.within.bandwidth;
    pool.intra_latency = links.within.latency;
    pool.inter_bandwidth = links.across.bandwidth;
    pool.inter_latency = links.across.latency;
    for (const Model& model :
         {Model{"bert-48-pbs-2.txt", 2, 64}, Model{"xlnet-36-pbs-1.txt", 1, 128},
          Model{"gnmt-16-pbs-64.txt", 64, 1024}, Model{"vgg-19-pbs-32.txt", 32, 2048}}) {
      SCOPED_TRACE(std::string(name) + " " + model.file);
      PlanRequest request;
      request.system = "dapple";
      request.cluster = cluster;
      request.profile = load_profile(test::shared_profile("dapple", model.file),
                                     ProfileOrigin{"v100", model.batch});
      request.minibatch = model.minibatch;
      const Plan plan = plan_dapple(request);
      const Shapes shapes = shapes_of(model.file, model.batch, model.minibatch, pool);
      EXPECT_LE(
          plan.predicted->bottleneck,
          std::min({shapes.data_parallel, shapes.two_of_eight, shapes.straight}) * (1 + 1e-9));
      if (*name != 'a' || model.batch == 32) continue;
      const auto& stages = plan.virtual_workers[0].stages;
      ASSERT_EQ(stages.size(), 2u);
      EXPECT_EQ(stages[0].devices.size(), 8u);
      EXPECT_EQ(stages[1].devices.size(), 8u);
    }
  }
}

}  // namespace dapple_latency_test
}  // namespace hetpipe
