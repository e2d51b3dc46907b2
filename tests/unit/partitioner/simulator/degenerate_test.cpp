// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/simulate.h"

// Plans at the edge of what a plan can be.
namespace hetpipe {
namespace degenerate_test {

using test::user_error;
using testing::HasSubstr;

// `stages` of one layer each, on a node each.
struct Line {
  Cluster cluster;
  Profile profile;
  Plan plan;
};

Line line_of(const std::string& system, int stages) {
  Line line;
  line.cluster = test::cluster_of(
      std::vector<std::vector<std::string>>(static_cast<std::size_t>(stages), {"a"}),
      1'000'000'000);
  line.profile = test::chain_of(stages, {"a"}, [](const auto&) { return 1.0; });
  line.plan.system = system;
  line.plan.model = "chain";
  PlanVirtualWorker worker;
  for (int k = 0; k < stages; ++k) {
    PlanStage stage;
    stage.first_layer = k;
    stage.end_layer = k + 1;
    stage.devices = {{"n" + std::to_string(k), 0}};
    worker.stages.push_back(stage);
  }
  line.plan.virtual_workers.push_back(worker);
  return line;
}

Simulation simulated(const Line& line, const SimulationRequest& request = {}) {
  return simulate(line.plan, line.cluster, line.profile, request);
}

void expect_sound(const Simulation& s, const std::string& what) {
  EXPECT_TRUE(std::isfinite(s.throughput) && s.throughput > 0) << what;
  EXPECT_TRUE(std::isfinite(s.iteration_seconds) && s.iteration_seconds > 0) << what;
  for (const SimulatedStage& row : s.stages) {
    EXPECT_NEAR(row.busy + row.communication + row.bubble, 1, 1e-9) << what;
    EXPECT_TRUE(row.busy >= 0 && row.communication >= 0 && row.bubble >= 0) << what;
  }
}

// Forward 1 s, backward 2 s, whatever the system; TiMePReSt runs the forward again.
TEST(Degenerate, OneLayerOnOneDevice) {
  for (const System& system : systems()) {
    const Line line = line_of(system.name, 1);
    const Simulation s = simulated(line);
    const double again = traits(system.weights).recomputes ? 1 : 0;
    EXPECT_NEAR(s.iteration_seconds, 3 + again, 1e-9) << system.name;
    EXPECT_NEAR(s.stages.at(0).busy, 1, 1e-9) << system.name;
    expect_sound(s, system.name);
  }
}

TEST(Degenerate, LayersOfNoTimeAndNoBytes) {
  for (const System& system : systems()) {
    if (system.planner == PlannerRule::data_parallel) continue;
    Line line = line_of(system.name, 3);
    Measurement& m = line.profile.measurements[0];
    m.forward = {0, 1, 0};
    m.backward = {0, 2, 0};
    m.output_bytes = {0, 0, 0};
    for (ProfileLayer& layer : line.profile.layers) layer.parameter_bytes = 0;
    line.cluster.inter_node.latency = 0;
    line.plan.in_flight = 3;
    const Simulation s = simulated(line);
    const double again = traits(system.weights).recomputes ? 1 : 0;
    EXPECT_NEAR(s.iteration_seconds, 3 + again, 1e-9) << system.name;
    EXPECT_EQ(s.stages.at(0).busy, 0) << system.name;
    expect_sound(s, system.name);
  }
}

TEST(Degenerate, NothingThatTakesTime) {
  for (const System& system : systems()) {
    Line line = line_of(system.name, 1);
    Measurement& m = line.profile.measurements[0];
    m.forward = m.backward = {0};
    EXPECT_THAT(user_error([&] { simulated(line); }), HasSubstr("takes no time")) << system.name;
  }
  Line line = line_of("pipedream-flush", 1);
  line.plan.runtime = "megatron-deepspeed";
  Measurement& m = line.profile.measurements[0];
  m.forward = m.backward = {0};
  EXPECT_THAT(user_error([&] { simulated(line); }), HasSubstr("takes no time"));
}

// F 1 s and B 2 s at each of four stages, one after the other; of a split B all stages but the
// first do their W beside what comes after it.
TEST(Degenerate, OneMinibatch) {
  for (const char* system : {"gpipe", "pipedream-flush", "dapple", "zero-bubble"}) {
    Line line = line_of(system, 4);
    line.cluster.inter_node = {1e30, 0, false};
    SimulationRequest request;
    request.minibatches = 1;
    const double split = system == std::string("zero-bubble") ? 3 : 0;
    EXPECT_NEAR(simulated(line, request).iteration_seconds, 12 - split, 1e-9) << system;
  }
}

// As many micro-batches as samples: (M + p - 1) pairs of F and B of a 32nd of a minibatch each.
TEST(Degenerate, ManyMicroBatches) {
  for (const int micro_batches : {32, 1024, 65536}) {
    Line line = line_of("pipedream-flush", 4);
    line.cluster.inter_node = {1e30, 0, false};
    line.plan.minibatch = line.plan.micro_batches = micro_batches;
    const Simulation s = simulated(line);
    EXPECT_NEAR(s.iteration_seconds, (micro_batches + 3) * 3 / 32.0, 1e-6 * micro_batches);
    EXPECT_GE(s.actions, 4LL * 2 * micro_batches);
  }
}

// It says so before it takes the memory.
TEST(Degenerate, TooLargeToPlay) {
  Line line = line_of("pipedream-flush", 8);
  line.plan.minibatch = line.plan.micro_batches = 100'000;
  SimulationRequest request;
  request.minibatches = 1'000;
  EXPECT_THAT(user_error([&] { simulated(line, request); }),
              testing::AllOf(HasSubstr("--minibatches"), HasSubstr("8.0 GB is the most"),
                             HasSubstr("1000 minibatches of 100000 micro-batches"),
                             HasSubstr("Ask for fewer")));
  line.plan.runtime = "megatron-deepspeed";
  EXPECT_THAT(user_error([&] { simulated(line, request); }), HasSubstr("8.0 GB is the most"));
  Line waves = line_of("hetpipe", 2);
  request.minibatches = 10'000'000;
  EXPECT_THAT(user_error([&] { simulated(waves, request); }), HasSubstr("--minibatches"));

  // Nobody has asked for so much: it is the plan.
  Line many = line_of("pipedream-flush", 128);
  many.plan.minibatch = many.plan.micro_batches = 100'000;
  EXPECT_THAT(user_error([&] { simulated(many); }),
              testing::AllOf(HasSubstr("100000 micro-batches for each of 1 virtual workers"),
                             HasSubstr("fewer micro_batches")));
}

}  // namespace degenerate_test
}  // namespace hetpipe
