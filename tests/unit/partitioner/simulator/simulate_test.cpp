// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace simulate_test {

using test::user_error;
using testing::HasSubstr;

// Virtual workers of one stage per entry, devices n<vw>:0, n<vw>:1, ...; the cut of a chain.
Plan plan_of(const std::vector<std::vector<int>>& ends, int in_flight) {
  Plan plan;
  plan.model = "chain";
  plan.minibatch = 32;
  plan.in_flight = in_flight;
  for (std::size_t vw = 0; vw < ends.size(); ++vw) {
    PlanVirtualWorker worker;
    int first = 0;
    for (std::size_t k = 0; k < ends[vw].size(); ++k) {
      PlanStage stage;
      stage.first_layer = first;
      stage.end_layer = first = ends[vw][k];
      stage.devices = {{"n" + std::to_string(vw), static_cast<int>(k)}};
      worker.stages.push_back(stage);
    }
    plan.virtual_workers.push_back(worker);
  }
  return plan;
}

PlanServer server_on(const std::string& node, int clock_distance) {
  PlanServer server;
  server.nodes = {node};
  server.clock_distance = clock_distance;
  return server;
}

Cluster free_links(Cluster cluster) {
  cluster.intra_node = cluster.inter_node = {1e30, 0, false};
  return cluster;
}

Profile second_per_layer(int layers) {  // forward 1 s, backward 2 s
  return test::chain_of(layers, {"a"}, [](const auto&) { return 1.0; });
}

TEST(Simulate, OneStageIsItsComputeTime) {
  const Cluster c = free_links(test::cluster_of({{"a"}}, 1'000'000'000));
  const Simulation s = simulate(plan_of({{4}}, 1), c, second_per_layer(4));
  EXPECT_NEAR(s.iteration_seconds, 12, 1e-9);
  EXPECT_NEAR(s.throughput, 32 / 12.0, 1e-9);
  EXPECT_EQ(s.global_batch, 32);
  EXPECT_NEAR(s.stages[0].busy, 1, 1e-9);
}

// Two equal stages of 6 s. One in flight: one after the other. Two: stage 0 holds 2, nobody waits.
TEST(Simulate, UpdatesTakeTheTimeOfTheirOptimizer) {
  const Cluster c = free_links(test::cluster_of({{"a"}}, 1'000'000'000));
  Profile profile = second_per_layer(2);
  for (Measurement& m : profile.measurements) {
    m.update.assign(2, 0.5);
    m.damped_update.assign(2, 0.75);
    m.orthogonal_update.assign(2, 2);
  }
  const auto seconds = [&](const char* system, const char* optimizer) {
    Plan plan = plan_of({{2}}, 1);
    plan.system = system;
    plan.optimizer = optimizer;
    if (traits(composition(plan).sync).waves()) plan.server = server_on("n0", 0);
    return simulate(plan, c, profile).iteration_seconds;
  };
  EXPECT_NEAR(seconds("hetpipe", "sgd-momentum"), 6 + 1, 1e-9);
  EXPECT_NEAR(seconds("hetpipe", "adam"), 6 + 1.5, 1e-9);
  EXPECT_NEAR(seconds("gpipe", "adam"), 6 + 1.5, 1e-9);
  EXPECT_NEAR(seconds("spectrain", "adam"), 6 + 1, 1e-9);  // predicts along steps as they are
  EXPECT_NEAR(seconds("gpipe", "muon"), 6 + 4, 1e-9);
}

TEST(Simulate, MinibatchesInFlightFillThePipeline) {
  const Cluster c = free_links(test::cluster_of({{"a", "a"}}, 1'000'000'000));
  EXPECT_NEAR(simulate(plan_of({{2, 4}}, 1), c, second_per_layer(4)).iteration_seconds, 12, 1e-9);
  const Simulation full = simulate(plan_of({{2, 4}}, 2), c, second_per_layer(4));
  EXPECT_NEAR(full.iteration_seconds, 6, 1e-9);
  EXPECT_NEAR(full.stages[1].busy, 1, 1e-9);
  EXPECT_NEAR(full.stages[0].bubble, 0, 1e-9);
}

// One in flight, so that each message shows: 4000 bytes over 1000 bytes/s and 1 s of latency, there
// and back.
TEST(Simulate, MessagesTakeTheirLink) {
  Cluster c = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  c.intra_node = {1000, 1, false};
  const Simulation s = simulate(plan_of({{2, 4}}, 1), c, second_per_layer(4));
  EXPECT_NEAR(s.iteration_seconds, 12 + 2 * 5, 1e-9);
  EXPECT_NEAR(s.stages[0].communication, 5 / 22.0, 1e-9);
  EXPECT_NEAR(s.stages[0].busy + s.stages[0].communication + s.stages[0].bubble, 1, 1e-9);
}

// A skip tensor over the middle stage comes by its own link; the sender's messages to one receiver
// queue.
TEST(Simulate, ASkipTensorIsWaitedFor) {
  Cluster c = test::cluster_of({{"a", "b", "d"}}, 1'000'000'000);
  Profile p = test::chain_of(3, {"a", "b", "d"}, [](const auto&) { return 1.0; });
  p.layers[2].inputs = {1, 0};
  c.intra_node = {1e30, 0, false};
  c.between = {{{"a", "d"}, {}, {100, 0, false}, true}};  // 40 s for 4000 bytes
  const Simulation s = simulate(plan_of({{1, 2, 3}}, 1), c, p);
  EXPECT_NEAR(s.iteration_seconds, 1 + 40 + 3 + 40 + 2, 1e-9);  // F0, skip, F2 B2, skip, B0
}

// Two virtual workers, one twice as slow: at a finite D both go at the slow one's pace.
TEST(Simulate, TheGateKeepsVirtualWorkersTogether) {
  const Cluster c = free_links(test::cluster_of({{"a"}, {"b"}, {}}, 1'000'000'000));
  const Profile p =
      test::chain_of(2, {"a", "b"}, [](const auto& kind) { return kind == "a" ? 1.0 : 2.0; });
  for (const int distance : {0, 3}) {
    Plan plan = plan_of({{2}, {2}}, 2);
    plan.server = server_on("n2", distance);
    const Simulation s = simulate(plan, c, p);
    EXPECT_NEAR(s.iteration_seconds, 12, 1e-9);
    EXPECT_NEAR(s.throughput, 64 / 12.0, 1e-9);
    EXPECT_NEAR(s.stages[0].busy, 0.5, 1e-9);
    EXPECT_NEAR(s.stages[1].busy, 1, 1e-9);
  }
}

// Waves of one at D = 0 show the whole round trip: push 1 + 2 s (2000 bytes of parameters), then
// the snapshot that was asked for ahead, 1 + 2 s. At D = 1 both hide behind the next minibatch and
// the gate's question and answer are left, one latency each; the newest snapshot is asked for with
// its own question behind that.
TEST(Simulate, PushAndPullTakeTheirLink) {
  Cluster c = test::cluster_of({{"a"}, {}}, 1'000'000'000);
  c.inter_node = {1000, 1, false};
  Plan plan = plan_of({{2}}, 1);
  plan.server = server_on("n1", 0);
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).iteration_seconds, 6 + 3 + 3, 1e-9);
  plan.server->clock_distance = 1;
  plan.server->pull = "bound";
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).iteration_seconds, 6 + 2, 1e-9);
  plan.server->pull = "newest";
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).iteration_seconds, 6 + 2 + 1 + 3, 1e-9);
}

// Pushes of 8 s behind minibatches of 6: a virtual worker may be D waves ahead of what has arrived,
// and is, until then faster than its link; what is predicted is what comes after.
TEST(Simulate, WhatALargeDPutsOffIsPredicted) {
  Cluster c = test::cluster_of({{"a"}, {}}, 1'000'000'000);
  c.inter_node = {250, 0, false};
  for (const char* system : {"hetpipe", "data-parallel"}) {
    for (const int distance : {1, 2, 5, 20}) {
      SCOPED_TRACE(std::string(system) + " D " + std::to_string(distance));
      Plan plan = plan_of({{2}}, 1);
      plan.system = system;
      plan.sync = "wsp";
      plan.server = server_on("n1", distance);
      plan.server->pull = "bound";
      const Simulation s = simulate(plan, c, second_per_layer(2));
      // With D = 1 one push and one pull of 8 s and two minibatches make two waves.
      const double wave = distance == 1 ? (8 + 8 + 6) / 2.0 : 8;
      EXPECT_NEAR(s.iteration_seconds, wave, 0.01 * wave);
      EXPECT_NEAR(s.stages[0].busy, 6 / wave, 0.01);
      EXPECT_NEAR(s.stages[0].busy + s.stages[0].communication + s.stages[0].bubble, 1, 1e-9);
    }
  }
}

// Stage 0 gets ahead of a slower stage, or of a slow link, until Nm minibatches wait in between: for
// longer than is simulated, and what is predicted is what comes after.
TEST(Simulate, WhatManyInFlightPutOffIsPredicted) {
  const auto seconds = [](double message_seconds, int first_stage) {
    Cluster c = test::cluster_of({{"a", "a"}}, 1'000'000'000'000);
    c.intra_node = {4000 / message_seconds, 0, false};
    return simulate(plan_of({{first_stage, 39}}, 60), c, second_per_layer(39)).iteration_seconds;
  };
  EXPECT_NEAR(seconds(1e-9, 19), 3 * 20, 1e-6);
  EXPECT_NEAR(seconds(1e-9, 20), 3 * 20, 1e-6);
  EXPECT_NEAR(seconds(64, 19), 64, 0.01 * 64);
}

// Nor does the slower stage have to compute all the time: two replicas that sum their gradients.
TEST(Simulate, WhatManyInFlightPutOffIsPredictedWhereReplicasSum) {
  Cluster c = test::cluster_of({{"a", "a", "a"}}, 1'000'000'000'000);
  c.intra_node = {8000, 0, false};
  Plan plan = plan_of({{20, 59}}, 60);
  plan.system = "pipedream-2bw";
  PlanStage& stage = plan.virtual_workers[0].stages[1];
  stage.devices.push_back({"n0", 2});
  stage.shares = {16, 16};
  SimulationRequest longer;
  longer.minibatches = 200 * 60;
  const double middle = simulate(plan, c, second_per_layer(59), longer).iteration_seconds;
  const double predicted = simulate(plan, c, second_per_layer(59)).iteration_seconds;
  EXPECT_NEAR(predicted, middle, 0.01 * middle);
}

// As a run of many waves does in its middle, whose pattern may take D + 1 waves to repeat.
TEST(Simulate, WhatIsPredictedWithDIsTheMiddleOfALongRun) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {}}, 1'000'000'000);
  for (const int in_flight : {1, 2, 4}) {
    for (const int distance : {0, 1, 2, 3}) {
      for (const double bandwidth : {100.0, 180.0, 300.0, 500.0, 900.0}) {
        SCOPED_TRACE(testing::Message()
                     << "Nm " << in_flight << " D " << distance << " at " << bandwidth);
        c.inter_node = {bandwidth, 0.5, false};
        Plan plan = plan_of({{2}, {2}}, in_flight);
        plan.server = server_on("n2", distance);
        plan.server->pull = "bound";
        SimulationRequest longer;
        longer.minibatches = 400 * in_flight;
        const double middle = simulate(plan, c, second_per_layer(2), longer).iteration_seconds;
        const double predicted = simulate(plan, c, second_per_layer(2)).iteration_seconds;
        EXPECT_NEAR(predicted, middle, 0.01 * middle);
      }
    }
  }
}

// Pushes alone take half: 1 + 1 s, and the snapshot 1 + 2 s.
TEST(Simulate, PushesInBf16TakeHalfTheBytes) {
  Cluster c = test::cluster_of({{"a"}, {}}, 1'000'000'000);
  c.inter_node = {1000, 1, false};
  Plan plan = plan_of({{2}}, 1);
  plan.server = server_on("n1", 0);
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).bytes_between_nodes, 4000, 1e-9);
  plan.server->push_precision = "bf16";
  const Simulation halved = simulate(plan, c, second_per_layer(2));
  EXPECT_NEAR(halved.iteration_seconds, 6 + 2 + 3, 1e-9);
  EXPECT_NEAR(halved.bytes_between_nodes, 3000, 1e-9);
}

// Two virtual workers push 2 s each through the server's one interface, and pull as long. They
// share it fairly: both pushes take 4 s, and so do both pulls.
TEST(Simulate, VirtualWorkersShareTheServersInterface) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {}}, 1'000'000'000);
  c.inter_node = {1000, 0, false};
  Plan plan = plan_of({{2}, {2}}, 1);
  plan.server = server_on("n2", 0);
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).iteration_seconds, 6 + 4 + 4, 1e-9);
}

// Emulated links pass one message after the other.
TEST(Simulate, EmulatedLinksQueueAtTheServer) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {}}, 1'000'000'000);
  c.inter_node = {1000, 0, true};
  Plan plan = plan_of({{2}, {2}}, 1);
  plan.server = server_on("n2", 0);
  const double one_after_the_other = simulate(plan, c, second_per_layer(2)).iteration_seconds;
  // Pushes end at 6 + 2 and 6 + 4. The first to be answered starts again 2 s later, the other 4 s
  // later, and so pushes last again: 6 + 2 + 2 from its start to the next label.
  EXPECT_NEAR(one_after_the_other, 6 + 2 + 4, 1e-9);
}

TEST(Simulate, SaysWhatItDoesNotKnow) {
  const Cluster c = test::cluster_of({{"a"}, {"a"}}, 1'000'000'000);
  const Profile p = second_per_layer(2);
  Plan plan = plan_of({{2}, {2}}, 2);
  EXPECT_THAT(user_error([&] { simulate(plan, c, p); }), HasSubstr("no [parameter_server]"));
  plan.server = server_on("n0", 0);
  EXPECT_THAT(user_error([&] { simulate(plan, c, p, {3}); }), HasSubstr("Ask for at least 4"));
  EXPECT_GT(simulate(plan, c, p, {4}).throughput, 0);
  plan.runtime = "nobody's";
  EXPECT_THAT(user_error([&] { simulate(plan, c, p); }), HasSubstr("runtime 'nobody's'"));
  plan.runtime = "";
  plan.model = "other";
  EXPECT_THAT(user_error([&] { simulate(plan, c, p); }), HasSubstr("a plan for another profile"));
  plan.model = "chain";
  EXPECT_THAT(user_error([&] { simulate(plan, c, second_per_layer(3)); }),
              HasSubstr("has 2 layers, the profile has 3 (a plan for another profile)"));
}

}  // namespace simulate_test
}  // namespace hetpipe
