// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/stage_times.h"

// Replicas, all-reduce and servers through simulate(): hand-computed cases, and what must hold for
// any plan.
namespace hetpipe {
namespace sync_test {

using testing::HasSubstr;

PlanStage stage_of(int first, int end, const std::vector<DeviceName>& devices) {
  PlanStage stage;
  stage.first_layer = first;
  stage.end_layer = end;
  stage.devices = devices;
  return stage;
}

Plan plan_of(const std::string& system, const std::vector<std::vector<PlanStage>>& workers) {
  Plan plan;
  plan.system = system;
  plan.model = "chain";
  for (const auto& stages : workers) plan.virtual_workers.push_back({std::nullopt, stages});
  return plan;
}

Profile second_per_layer(int layers) {  // forward 1 s, backward 2 s, 1000 bytes, at batch 32
  return test::chain_of(layers, {"a"}, [](const auto&) { return 1.0; });
}

// Two replicas do half of the samples each, 4 x 3 s / 2, then reduce 4000 bytes, one piece: up,
// down, and two latencies.
TEST(AllReduce, ReplicasShareSamplesAndReduce) {
  Cluster c = test::cluster_of({{"a"}, {"a"}}, 1'000'000'000);
  c.inter_node = {1000, 1, false};
  Plan plan = plan_of("data-parallel", {{stage_of(0, 4, {{"n0", 0}, {"n1", 0}})}});
  const Simulation s = simulate(plan, c, second_per_layer(4));
  EXPECT_NEAR(s.iteration_seconds, 6 + 8 + 2, 1e-9);
  EXPECT_EQ(s.global_batch, 32);
  EXPECT_NEAR(s.bytes_between_nodes, 2 * 4000, 1e-9);
  ASSERT_EQ(s.stages.size(), 2u);
  EXPECT_EQ(s.stages[1].replica, 1);
  EXPECT_NEAR(s.stages[1].busy, 6 / 16.0, 1e-9);
  EXPECT_NEAR(s.stages[0].communication, 10 / 16.0, 1e-9);
  EXPECT_NEAR(s.stages[1].communication, 5 / 16.0,
              1e-9);  // has the sum, continues, waits for the other
  EXPECT_NEAR(s.stages[1].bubble, 5 / 16.0, 1e-9);

  plan.virtual_workers[0].stages[0].shares = {24, 8};  // the first is the slower one: 9 s
  EXPECT_NEAR(simulate(plan, c, second_per_layer(4)).iteration_seconds, 9 + 8 + 2, 1e-9);

  c.kinds[0].gpus = 2;  // the gradients of both cross the interface
  EXPECT_NEAR(simulate(plan, c, second_per_layer(4)).iteration_seconds, 9 + 16 + 2, 1e-9);
}

// Stage 1's all-reduce (1.5 s) hides behind stage 0's backward; stage 0's does not.
TEST(AllReduce, OverlapsOtherStagesBackward) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"a"}, {"a"}}, 1'000'000'000);
  c.inter_node = {1e30, 0, false};
  c.between = {{{}, {"n0", "n2"}, {2000 / 1.5, 0, false}, true},
               {{}, {"n1", "n3"}, {2000 / 1.5, 0, false}, true}};
  const Plan plan = plan_of("gpipe", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 2, {{"n1", 0}})},
                                      {stage_of(0, 1, {{"n2", 0}}), stage_of(1, 2, {{"n3", 0}})}});
  const Simulation s = simulate(plan, c, second_per_layer(2));
  EXPECT_NEAR(s.iteration_seconds, 1 + 1 + 2 + 2 + 1.5, 1e-9);
  EXPECT_EQ(s.global_batch, 64);
}

// Stage 1's sums share n3's way in with what stage 0 sends for the next minibatch; behind the last
// one nothing comes, so it ends earlier than the others. The pace is that of the others, and three
// minibatches show it.
TEST(AllReduce, SettlesAlthoughNothingFollowsTheLastMinibatch) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"a"}, {"a"}}, 1'000'000'000);
  c.inter_node = {500, 0, false};
  c.between = {{{}, {"n0", "n1"}, {1e30, 0, false}, true},
               {{}, {"n2", "n3"}, {50, 0, false}, true}};
  const Plan plan = plan_of(
      "dapple", {{stage_of(0, 1, {{"n0", 0}, {"n1", 0}}), stage_of(1, 2, {{"n2", 0}, {"n3", 0}})}});
  const Profile profile = second_per_layer(2);
  const auto played = [&](int minibatches) {
    SimulationRequest request;
    request.minibatches = minibatches;
    return simulate(plan, c, profile, request);
  };
  const Simulation s = simulate(plan, c, profile);
  EXPECT_EQ(s.actions, played(3).actions);
  // Their second halves, 16 and 14 minibatches, both with a last one: two ordinary ones more.
  EXPECT_NEAR(2 * s.iteration_seconds,
              16 * played(32).iteration_seconds - 14 * played(28).iteration_seconds, 1e-9);
}

// Cuts that differ: every layer is reduced by the two devices that hold it.
TEST(AllReduce, ReducesLayersWhoseCutsDiffer) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
  c.intra_node = {1e30, 0, false};
  c.inter_node = {2000, 0, false};
  const Plan plan = plan_of("gpipe", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 3, {{"n0", 1}})},
                                      {stage_of(0, 2, {{"n1", 0}}), stage_of(2, 3, {{"n1", 1}})}});
  const Simulation s = simulate(plan, c, second_per_layer(3));
  EXPECT_NEAR(s.bytes_between_nodes, 3 * 2 * 1000, 1e-9);
  // Worker 0: F 1 2, B 4 2: n0:1 is done at 7, n0:0 at 9. Worker 1: F 2 1, B 2 4: 5 and 9. Layer 2
  // (n0:1 and n1:1) goes at 7 and ends at 8. Layers 1 (n0:1, n1:0) and 0 go at 9 and share the
  // interfaces: 1 s up, where n1:0 is done, 1 s down. So n1:0 is a second ahead from then on: layer
  // 1 goes at 19 and layer 0 at 20, each alone, and that one ends at 21.
  EXPECT_NEAR(s.iteration_seconds, 10, 1e-9);
}

// The samples of a micro-batch go to the replicas that work on them: 2000 bytes to each of two,
// over links of their own; and back.
TEST(Replicas, SplitAndConcatenate) {
  Cluster c = test::cluster_of({{"a", "a", "a"}}, 1'000'000'000);
  c.intra_node = {1000, 0, false};
  Plan plan =
      plan_of("gpipe", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 2, {{"n0", 1}, {"n0", 2}})}});
  Profile p = second_per_layer(2);
  p.layers[1].parameter_bytes = 0;  // nothing to reduce
  // F 1, message 2, F B 0.5 + 1, message 2, B 2.
  EXPECT_NEAR(simulate(plan, c, p).iteration_seconds, 1 + 2 + 1.5 + 2 + 2, 1e-9);
  plan.virtual_workers[0].stages[1].shares = {24, 8};
  EXPECT_NEAR(simulate(plan, c, p).iteration_seconds, 1 + 3 + 2.25 + 3 + 2, 1e-9);
  plan.minibatch = 1;
  plan.virtual_workers[0].stages[1].shares = {};
  EXPECT_THAT(test::user_error([&] { simulate(plan, c, p); }),
              HasSubstr("a micro-batch of 1 samples cannot be split over 2 devices"));
}

// 4 s for the weights to the stage that uses them, F 1, B 2, 4 s for the gradient back; the owner's
// own B is done by then.
TEST(TiedWeights, AreSentBeforeFAndTheirGradientsBeforeTheUpdate) {
  Cluster c = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  c.intra_node = {1000, 0, false};
  Profile p = second_per_layer(2);
  p.layers[0].parameter_bytes = p.layers[1].parameter_bytes = 4000;
  p.measurements[0].output_bytes = {0, 0};
  Plan plan = plan_of("gpipe", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 2, {{"n0", 1}})}});
  EXPECT_NEAR(simulate(plan, c, p).iteration_seconds, 1 + 3 + 2, 1e-9);
  p.layers[1].shares = p.layers[0].name;
  EXPECT_NEAR(simulate(plan, c, p).iteration_seconds, 4 + 3 + 4, 1e-9);
  plan.virtual_workers[0].stages = {stage_of(0, 2, {{"n0", 0}})};
  EXPECT_NEAR(simulate(plan, c, p).iteration_seconds, 6, 1e-9);
}

// Nobody waits for the slower one: 32 samples in 6 s and in 12 s.
TEST(Servers, AsynchronousWorkersGoEachAtItsPace) {
  Cluster c = test::cluster_of({{"a"}, {"b"}, {}}, 1'000'000'000);
  c.intra_node = c.inter_node = {1e30, 0, false};
  const Profile p =
      test::chain_of(2, {"a", "b"}, [](const auto& kind) { return kind == "a" ? 1.0 : 2.0; });
  Plan plan = plan_of("asp", {{stage_of(0, 2, {{"n0", 0}})}, {stage_of(0, 2, {{"n1", 0}})}});
  plan.server.emplace().nodes = {"n2"};
  EXPECT_NEAR(simulate(plan, c, p).throughput, 32 / 6.0 + 32 / 12.0, 1e-9);
  plan.system = "ssp";
  EXPECT_NEAR(simulate(plan, c, p).throughput, 64 / 12.0, 1e-9);
}

// The gate waits for the own push of 2000 bytes, and then there is a pull of as many.
TEST(Servers, AsynchronousPullsAreWaitedFor) {
  Cluster c = test::cluster_of({{"a"}, {}}, 1'000'000'000);
  c.inter_node = {2000, 0, false};
  Plan plan = plan_of("asp", {{stage_of(0, 2, {{"n0", 0}})}});
  plan.server.emplace().nodes = {"n1"};
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).throughput, 32 / 8.0, 1e-9);
}

// Two pipelines over one slow interface are no faster than one, emulated links or real ones.
TEST(Links, PairsOfTwoNodesShareTheirInterfaces) {
  for (const bool emulate : {false, true}) {
    Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
    c.inter_node = {100, 0, emulate};  // 40 s for 4000 bytes, where a stage computes 3 s
    Plan one = plan_of("vanilla", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 2, {{"n1", 0}})}});
    one.in_flight = 4;
    Profile p = second_per_layer(2);
    for (auto& layer : p.layers) layer.parameter_bytes = 0;  // nothing to reduce
    Plan two = one;
    two.virtual_workers.push_back(
        {std::nullopt, {stage_of(0, 1, {{"n0", 1}}), stage_of(1, 2, {{"n1", 1}})}});
    EXPECT_NEAR(simulate(one, c, p).throughput, 32 / 40.0, 1e-9) << emulate;
    EXPECT_NEAR(simulate(two, c, p).throughput, 32 / 40.0, 0.01) << emulate;
  }
}

// A wave pushes and pulls 2 x 1000 bytes per stage; local placement keeps them inside the node.
TEST(Servers, BytesBetweenNodes) {
  const Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
  Plan plan = plan_of("hetpipe", {{stage_of(0, 1, {{"n0", 0}}), stage_of(1, 2, {{"n1", 0}})},
                                  {stage_of(0, 1, {{"n0", 1}}), stage_of(1, 2, {{"n1", 1}})}});
  plan.in_flight = 2;
  plan.server.emplace().nodes = {"n1", "n0"};  // round-robin: each layer is on the other node
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).bytes_between_nodes, 4 * 2000 / 2.0, 1e-9);
  plan.server->placement = "local";
  EXPECT_NEAR(simulate(plan, c, second_per_layer(2)).bytes_between_nodes, 0, 1e-9);
}

TEST(Jitter, IsTheSamePerSeed) {
  const Cluster c = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  const Plan plan = plan_of("gpipe", {{stage_of(0, 2, {{"n0", 0}}), stage_of(2, 4, {{"n0", 1}})}});
  const auto seconds = [&](std::uint64_t seed, double jitter) {
    SimulationRequest request;
    request.seed = seed;
    request.jitter = jitter;
    return simulate(plan, c, second_per_layer(4), request).iteration_seconds;
  };
  EXPECT_EQ(seconds(1, 0.1), seconds(1, 0.1));
  EXPECT_NE(seconds(1, 0.1), seconds(2, 0.1));
  EXPECT_EQ(seconds(1, 0), seconds(2, 0));
  EXPECT_NEAR(seconds(1, 0.1), seconds(1, 0), 0.1 * seconds(1, 0));
}

TEST(Events, AreTheActionsInTime) {
  const Cluster c = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  const Plan plan = plan_of("gpipe", {{stage_of(0, 2, {{"n0", 0}}), stage_of(2, 4, {{"n0", 1}})}});
  SimulationRequest request;
  request.keep_events = true;
  request.minibatches = 2;
  const Simulation s = simulate(plan, c, second_per_layer(4), request);
  std::map<int, StageActions> played;
  std::map<int, double> busy_until;
  for (const SimulatedEvent& event : s.events) {
    EXPECT_GE(event.start, busy_until[event.row] - 1e-12) << to_string(event.action);
    busy_until[event.row] = event.end;
    if (event.action.kind == ActionKind::forward || event.action.kind == ActionKind::backward) {
      played[event.row].push_back(event.action);
      EXPECT_NEAR(event.end - event.start, event.action.kind == ActionKind::forward ? 2 : 4, 1e-9);
    }
  }
  EXPECT_EQ(to_string(played[0]), "F0 B0 F1 B1");
  EXPECT_EQ(to_string(played[1]), "F0 B0 F1 B1");
}

// Any plan of any system: nobody computes more than all of the time, and no iteration is shorter
// than what its busiest device computes.
struct Draw {
  std::mt19937 random;
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  double real(double least, double most) {
    return least + (most - least) * std::generate_canonical<double, 53>(random);
  }
};

TEST(Simulate, NeverFasterThanTheBusiestDevice) {
  Draw draw{std::mt19937(5)};
  for (int i = 0; i < 400; ++i) {
    const System& system = systems()[static_cast<std::size_t>(i) % systems().size()];
    const bool one_stage = system.planner == PlannerRule::data_parallel;
    const int workers = 1 + draw.below(3);
    const int stages = one_stage ? 1 : 1 + draw.below(4);
    const int replicas = 1 + draw.below(2);
    const int layers = stages + draw.below(5);
    std::vector<std::vector<std::string>> nodes(2);
    std::vector<std::vector<PlanStage>> planned;
    for (int w = 0; w < workers; ++w) {
      std::vector<PlanStage> of_worker;
      for (int k = 0; k < stages; ++k) {
        PlanStage stage = stage_of(k, k + 1 == stages ? layers : k + 1, {});
        const bool copied = !traits(system.sync).waves() && k % 2 == 0;
        for (int r = 0; r < (copied ? replicas : 1); ++r) {
          const int n = draw.below(2);
          auto& node = nodes[static_cast<std::size_t>(n)];
          stage.devices.push_back({"n" + std::to_string(n), static_cast<int>(node.size())});
          node.push_back(draw.below(2) == 0 ? "a" : "b");
        }
        of_worker.push_back(stage);
      }
      planned.push_back(of_worker);
    }
    nodes[0].insert(nodes[0].end(), {"a", "b"});
    Cluster c = test::cluster_of(nodes, 1'000'000'000'000);
    c.intra_node = {draw.real(1e3, 1e6), draw.real(0, 0.1), false};
    c.inter_node = {draw.real(1e3, 1e5), draw.real(0, 0.2), false};
    const double fast = draw.real(0.5, 1);
    const Profile p = test::chain_of(
        layers, {"a", "b"}, [&](const auto& kind) { return kind == "a" ? fast : 2 * fast; });
    Plan plan = plan_of(system.name, planned);
    plan.micro_batches = 1 << draw.below(4);
    plan.in_flight = stages + draw.below(3);
    if (traits(system.sync).waves()) {
      plan.server.emplace().nodes = {"n0", "n1"};
      plan.server->clock_distance = draw.below(3);
    }
    const Simulation s = simulate(plan, c, p);
    CostTable costs(c, p, Updates::plain);
    double busiest = 0;
    double bound = 0;  // samples/s, each virtual worker at the pace of its own busiest device
    for (int w = 0; w < workers; ++w) {
      double here = 0;
      for (const auto& of_stage : worker_times(plan, VirtualWorkerId{w}, costs)) {
        for (const ReplicaTimes& t : of_stage) {
          here = std::max(here, plan.micro_batches * (t.forward + t.backward) + t.update);
        }
      }
      busiest = std::max(busiest, here);
      bound += plan.minibatch / here;
    }
    if (traits(system.sync).bounded) bound = s.global_batch / busiest;
    ASSERT_LE(s.throughput, bound * (1 + 1e-9)) << i << " " << system.name;
    for (const SimulatedStage& row : s.stages) {
      ASSERT_LE(row.busy, 1 + 1e-9) << i << " " << system.name;
      ASSERT_NEAR(row.busy + row.communication + row.bubble, 1, 1e-9) << i << " " << system.name;
    }
  }
}

}  // namespace sync_test
}  // namespace hetpipe
