// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/megatron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/cost/megatron_ledger.h"

namespace hetpipe {
namespace megatron_test {

using test::user_error;
using testing::HasSubstr;

constexpr double kNever = 1e18;  // a buffer that no message fills

// One layer and one node per stage; F takes 1 s, B 2 s, a message 0.5 s (50 bytes at 100 bytes/s).
// No parameters, so nothing is all-reduced.
struct Case {
  Cluster cluster;
  Profile profile;
  Plan plan;

  explicit Case(int stages, int virtual_workers = 1, int micro_batches = 1) {
    const std::vector<std::string> device{"a"};
    cluster = test::cluster_of(std::vector<std::vector<std::string>>(
                                   static_cast<std::size_t>(stages * virtual_workers), device),
                               1000);
    cluster.inter_node = {100, 0, false};
    cluster.intra_node = {1e6, 0, false, 1000};
    profile = test::chain_of(stages, {"a"}, [](const std::string&) { return 1.0; });
    for (ProfileLayer& layer : profile.layers) layer.parameter_bytes = 0;
    profile.measurements[0].batch = 1;
    profile.measurements[0].output_bytes.assign(static_cast<std::size_t>(stages), 50);
    plan.system = "pipedream-flush";
    plan.runtime = "megatron-deepspeed";
    plan.model = profile.model;
    plan.minibatch = micro_batches;
    plan.micro_batches = micro_batches;
    int node = 0;
    for (int vw = 0; vw < virtual_workers; ++vw) {
      PlanVirtualWorker worker;
      for (int k = 0; k < stages; ++k) {
        PlanStage stage;
        stage.first_layer = k;
        stage.end_layer = k + 1;
        stage.devices = {{"n" + std::to_string(node++), 0}};
        worker.stages.push_back(stage);
      }
      plan.virtual_workers.push_back(worker);
    }
  }

  Simulation play(double buffer = kNever) const {
    SimulationRequest request;
    request.keep_events = true;
    return simulate_megatron(plan, cluster, profile, request, {buffer});
  }
};

double start_of(const Simulation& simulation, int row, const std::string& action) {
  for (const SimulatedEvent& event : simulation.events) {
    if (event.row == row && to_string(event.action) == action &&
        event.action.kind != ActionKind::send) {
      return event.start;
    }
  }
  ADD_FAILURE() << "no " << action;
  return 0;
}

TEST(MegatronOrder, ReceivesTheGradientBeforeItSendsTheActivation) {
  EXPECT_EQ(to_string(megatron_order(1, StageId{0}, 2)), "F0 B0 F0.1 B0.1");
  EXPECT_EQ(to_string(megatron_order(2, StageId{0}, 2)), "F0 S0 F0.1 V0 S0.1 B0 V0.1 B0.1");
  EXPECT_EQ(to_string(megatron_order(2, StageId{1}, 2)), "V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1");
  // Three stages: the first two F of stage 0 go out before a gradient is waited for.
  EXPECT_EQ(to_string(megatron_order(3, StageId{0}, 3)),
            "F0 S0 F0.1 S0.1 F0.2 V0 S0.2 B0 V0.1 B0.1 V0.2 B0.2");
  EXPECT_EQ(to_string(megatron_order(3, StageId{1}, 3)),
            "V0 F0 S0 V0.1 F0.1 V0 S0.1 B0 S0 V0.2 F0.2 V0.1 S0.2 B0.1 S0.1 V0.2 B0.2 S0.2");
  EXPECT_EQ(to_string(megatron_order(3, StageId{2}, 3)),
            "V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1 V0.2 F0.2 B0.2 S0.2");
}

// As 1F1B: at most stages - stage micro-batches between F and B, and that many where there are
// enough.
TEST(MegatronOrder, HoldsWhatOneForwardOneBackwardHolds) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int k = 0; k < stages; ++k) {
      for (const int micro_batches : {1, 2, 7}) {
        int held = 0;
        int most = 0;
        int done = 0;
        for (const Action& action : megatron_order(stages, StageId{k}, micro_batches)) {
          if (action.kind == ActionKind::forward) most = std::max(most, ++held);
          if (action.kind == ActionKind::backward) --held, ++done;
        }
        EXPECT_EQ(most, std::min(stages - k, micro_batches));
        EXPECT_EQ(held, 0);
        EXPECT_EQ(done, micro_batches);
      }
    }
  }
}

//   stage 0: F0 [0, 1]  F1 [1, 2]  waits for gradient 0 (5.0), sends activation 1
//   stage 1: F0 [1.5, 2.5]  B0 [2.5, 4.5]  gradient 0 on the wire until 5.0
//            F1 [5.5, 6.5]  B1 [6.5, 8.5]  gradient 1 until 9.0
//   stage 0: B0 [5, 7]  B1 [9, 11]
// An order that sent activation 1 at once would end after 9.5 s.
TEST(Megatron, TwoStagesWaitForEachOther) {
  const Case c(2, 1, 2);
  const Simulation simulation = c.play();
  EXPECT_DOUBLE_EQ(start_of(simulation, 1, "F0"), 1.5);
  EXPECT_DOUBLE_EQ(start_of(simulation, 0, "B0"), 5.0);
  EXPECT_DOUBLE_EQ(start_of(simulation, 1, "F0.1"), 5.5);
  EXPECT_DOUBLE_EQ(start_of(simulation, 0, "B0.1"), 9.0);
  EXPECT_DOUBLE_EQ(simulation.iteration_seconds, 11.0);
  EXPECT_EQ(simulation.global_batch, 2);
  EXPECT_DOUBLE_EQ(simulation.throughput, 2 / 11.0);
  ASSERT_EQ(simulation.stages.size(), 2U);
  for (const SimulatedStage& stage : simulation.stages) {
    EXPECT_DOUBLE_EQ(stage.busy_seconds, 6.0);
    EXPECT_NEAR(stage.busy + stage.communication + stage.bubble, 1, 1e-12);
  }
}

// Activation 1 leaves at 5.0 and takes 0.5 s; B0 of stage 0 waits until the rest fits the buffer.
TEST(Megatron, ASendBlocksUntilTheRestFitsTheBuffer) {
  const Case c(2, 1, 2);
  EXPECT_DOUBLE_EQ(start_of(c.play(0), 0, "B0"), 5.5);
  EXPECT_DOUBLE_EQ(start_of(c.play(25), 0, "B0"), 5.25);
  EXPECT_DOUBLE_EQ(start_of(c.play(50), 0, "B0"), 5.0);
}

// Each GPU has a buffer of its own.
TEST(Megatron, AGroupsBufferIsThatOfAllItsGpus) {
  Case c(2, 1, 2);
  c.cluster.kinds[0].gpus = 2;
  c.cluster.intra_node.gather_bandwidth = 1e30;
  EXPECT_DOUBLE_EQ(start_of(c.play(12.5), 0, "B0"), 5.25);
}

// Three quarters of 50 bytes at 1000 bytes/s, before each pass that has received something; the
// activation that leaves between a receive and its B does not wait for it.
TEST(Megatron, AGroupGathersWhatItsGpusReceive) {
  Case c(2, 1, 1);
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, 1 + 0.5 + 1 + 2 + 0.5 + 2);
  c.cluster.kinds[0].gpus = 4;
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, 1 + 0.5 + 1 + 2 + 0.5 + 2 + 2 * 0.0375);

  Case two(2, 1, 2);
  two.cluster.kinds[0].gpus = 4;
  const Simulation simulation = two.play();
  EXPECT_DOUBLE_EQ(start_of(simulation, 0, "B0"), 5.0375 + 0.0375);
  EXPECT_DOUBLE_EQ(start_of(simulation, 1, "F0.1"), 5.0375 + 0.5 + 0.0375);
}

// Two virtual workers of one stage: the slower one's start, then 2 * 1/2 * 2 GPUs * 30 bytes at
// 100 bytes/s, then the optimizer.
TEST(Megatron, GradientsOfAllGpusCrossTheOneInterface) {
  Case c(1, 2, 1);
  c.profile.layers[0].parameter_bytes = 30;
  c.profile.measurements[0].update = {0.25};
  c.cluster.kinds[0].gpus = 2;
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, 3 + 0.6 + 0.25);
  EXPECT_DOUBLE_EQ(c.play().bytes_between_nodes, 2 * 60);
}

// Where the cluster file says nothing, gathering has an assumed speed: the link's own is that of
// other messages.
TEST(Megatron, GatheringHasABandwidthOfItsOwn) {
  Case c(2, 1, 1);
  c.cluster.kinds[0].gpus = 4;
  const auto gathering = [&] { return c.play().iteration_seconds - 7; };
  c.cluster.intra_node.bandwidth = 1;
  EXPECT_NEAR(gathering(), 2 * 0.0375, 1e-12);
  c.cluster.intra_node.gather_bandwidth = 0;
  c.profile.measurements[0].output_bytes = {0, 0};
  const double without = c.play().iteration_seconds;
  c.cluster.inter_node.bandwidth = 1e30;
  c.profile.measurements[0].output_bytes.assign(2, 16'000'000'000);
  EXPECT_NEAR(c.play().iteration_seconds - without, 2 * 12e9 / kAssumedGatherBandwidth, 1e-6);
}

// Layers' updates add up; a whole step that was recorded with every layer does not.
TEST(Megatron, AWholeStepIsPaidOnce) {
  Case c(3, 1, 1);
  for (PlanStage& stage : c.plan.virtual_workers[0].stages) stage.first_layer = stage.end_layer = 0;
  c.plan.virtual_workers[0].stages.resize(1);
  c.plan.virtual_workers[0].stages[0].end_layer = 3;
  for (std::size_t l = 0; l < 3; ++l) {
    c.profile.layers[l].parameter_bytes = 10 + static_cast<std::int64_t>(l);
  }
  Measurement& m = c.profile.measurements[0];
  m.update = {0.25, 0.5, 0.75};
  EXPECT_NEAR(c.play().iteration_seconds, 3 * 3 + 1.5, 1e-12);
  // One number for layers that differ is what the runtime's profiler writes.
  m.update = {0.5, 0.5, 0.5};
  EXPECT_NEAR(c.play().iteration_seconds, 3 * 3 + 0.5, 1e-12);
  m.update_is_step = false;
  EXPECT_NEAR(c.play().iteration_seconds, 3 * 3 + 1.5, 1e-12);
  for (ProfileLayer& layer : c.profile.layers) layer.parameter_bytes = 10;
  m.update_is_step.reset();  // layers that are alike may take equal times
  EXPECT_NEAR(c.play().iteration_seconds, 3 * 3 + 1.5, 1e-12);
  m.update_is_step = true;
  EXPECT_NEAR(c.play().iteration_seconds, 3 * 3 + 0.5, 1e-12);
}

// Two stages, each with the whole step; a stage of one layer under this runtime has its share.
TEST(Megatron, EveryStagePaysTheWholeStep) {
  Case c(2, 1, 1);
  Measurement& m = c.profile.measurements[0];
  m.update = {0.5, 0.5};
  m.update_is_step = true;
  EXPECT_NEAR(c.play().iteration_seconds, 7 + 0.5, 1e-12);
  c.profile.layers[0].parameter_bytes = 30;
  c.profile.layers[1].parameter_bytes = 10;
  const LayerCosts costs = costs_on(c.profile, c.cluster.kinds[0], 1);
  EXPECT_NEAR(costs.update[0], 0.375, 1e-12);
  EXPECT_NEAR(costs.update[1], 0.125, 1e-12);
}

// Embedding and output layer, which share a weight, are not checkpointed.
TEST(Megatron, RecomputeLeavesOutEmbeddingAndOutputLayer) {
  Case c(5, 1, 1);
  for (PlanStage& stage : c.plan.virtual_workers[0].stages) stage.recompute = true;
  for (const SimulatedStage& stage : c.play().stages) EXPECT_NEAR(stage.busy_seconds, 4, 1e-12);
  c.profile.layers[3].shares = c.profile.layers[1].name;
  const Simulation simulation = c.play();
  for (const int k : {0, 1, 3, 4}) {
    EXPECT_NEAR(simulation.stages[static_cast<std::size_t>(k)].busy_seconds, 3, 1e-12) << k;
  }
  EXPECT_NEAR(simulation.stages[2].busy_seconds, 4, 1e-12);
}

// B of a stage that recomputes runs F again: 2 + 1 s instead of 2.
TEST(Megatron, RecomputeRunsForwardAgain) {
  Case c(2, 1, 2);
  const double without = c.play().iteration_seconds;
  c.plan.virtual_workers[0].stages[1].recompute = true;
  // On the critical path twice: stage 1's F and B of both micro-batches follow each other.
  EXPECT_NEAR(c.play().iteration_seconds, without + 2, 1e-12);
  EXPECT_NEAR(c.play().stages[1].busy_seconds, 2 * (1 + 3), 1e-12);
}

// Gradients of two bytes: as in the test above, but half. bf16's are summed, and sent, in fp32.
TEST(Megatron, Fp16HalvesGradients) {
  Case c(3, 2, 1);
  for (ProfileLayer& layer : c.profile.layers) layer.parameter_bytes = 30;
  c.cluster.kinds[0].gpus = 1;
  const double passes = 3 * 3 + 4 * 0.5;
  EXPECT_NEAR(c.play().iteration_seconds, passes + 0.3 + 0.3, 1e-12);  // tied weights, ring
  c.plan.precision = Precision::fp16;
  EXPECT_NEAR(c.play().iteration_seconds, passes + 0.15 + 0.15, 1e-12);
  c.plan.precision = Precision::bf16;
  EXPECT_NEAR(c.play().iteration_seconds, passes + 0.3 + 0.3, 1e-12);
}

// A weight that two layers of one stage share has one gradient.
TEST(Megatron, SharedWeightsOfAStageAreReducedOnce) {
  Case c(2, 2, 1);
  for (PlanVirtualWorker& worker : c.plan.virtual_workers) {
    worker.stages[0].end_layer = 2;
    worker.stages.resize(1);
  }
  for (ProfileLayer& layer : c.profile.layers) layer.parameter_bytes = 30;
  EXPECT_NEAR(c.play().iteration_seconds, 6 + 0.6, 1e-12);
  c.profile.layers[1].shares = c.profile.layers[0].name;
  EXPECT_NEAR(c.play().iteration_seconds, 6 + 0.3, 1e-12);
}

TEST(Megatron, TheSlowestReplicaSetsTheStartOfAllReduce) {
  Case c(1, 2, 1);
  c.profile.layers[0].parameter_bytes = 30;
  DeviceKind slow = c.cluster.kinds[0];
  slow.name = "b";
  c.cluster.kinds.push_back(slow);
  c.cluster.nodes[1].kinds = {1};
  Measurement m = c.profile.measurements[0];
  m.device = "b";
  m.forward = {4};
  c.profile.measurements.push_back(m);
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, 6 + 0.3);
}

// First and last layer share a weight unless the profile says otherwise: after the last backward
// its two holders exchange what is 2 * 1/2 * 30 bytes at 100 bytes/s.
TEST(Megatron, TiedWeightsAreReducedBetweenTheirStages) {
  Case c(3, 1, 1);
  const double passes = 3 * 3 + 4 * 0.5;
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, passes);
  c.profile.layers[0].parameter_bytes = 40;
  c.profile.layers[2].parameter_bytes = 30;
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, passes + 0.3);
  c.profile.layers[1].parameter_bytes = 10;
  c.profile.layers[1].shares = c.profile.layers[0].name;
  EXPECT_DOUBLE_EQ(c.play().iteration_seconds, passes + 0.1);
}

TEST(Megatron, IterationsFollowEachOther) {
  const Case c(2, 2, 2);
  SimulationRequest request;
  request.minibatches = 3;
  const Simulation simulation = simulate_megatron(c.plan, c.cluster, c.profile, request, {kNever});
  EXPECT_DOUBLE_EQ(simulation.iteration_seconds, 11.0);
  EXPECT_DOUBLE_EQ(simulation.window_seconds, 33.0);
  EXPECT_DOUBLE_EQ(simulation.throughput, 4 / 11.0);
}

// Four unequal stages, two virtual workers, everything at once: time has one unit.
TEST(Megatron, ScalesWithItsUnits) {
  const auto seconds = [](double scale) {
    Case c(4, 2, 6);
    c.cluster.kinds[0].gpus = 2;
    c.cluster.inter_node = {100 / scale, 0.01 * scale, false};
    c.cluster.intra_node = {1000 / scale, 0, false, 1000 / scale};
    for (ProfileLayer& layer : c.profile.layers) layer.parameter_bytes = 70;
    Measurement& m = c.profile.measurements[0];
    m.forward = {1 * scale, 2 * scale, 1.5 * scale, 0.5 * scale};
    m.backward = {2 * scale, 3 * scale, 2.5 * scale, 1.5 * scale};
    m.update.assign(4, 0.1 * scale);
    return c.play(10).iteration_seconds;
  };
  EXPECT_GT(seconds(1), 6 * (2 + 3));
  EXPECT_NEAR(seconds(8), 8 * seconds(1), 1e-9 * seconds(8));
}

TEST(Megatron, SimulateTakesItsPlans) {
  const Case c(2, 1, 2);
  const Simulation simulation = simulate(c.plan, c.cluster, c.profile);
  EXPECT_DOUBLE_EQ(simulation.iteration_seconds, 11.0);
  // And whoever asks for memory gets that runtime's ledger.
  const MemoryLedger ledger =
      megatron_stage_ledger(c.plan, c.cluster, c.profile, VirtualWorkerId{0}, StageId{0});
  EXPECT_EQ(simulation.stages[0].memory, ledger.total());
  EXPECT_EQ(stage_ledger(c.plan, c.cluster, c.profile, VirtualWorkerId{0}, StageId{0}), ledger);
}

TEST(Megatron, RefusesWhatThatRuntimeCannotRun) {
  const auto refused = [](const std::function<void(Case&)>& change) {
    Case c(2, 2, 2);
    change(c);
    return user_error([&] { c.play(); });
  };
  EXPECT_THAT(refused([](Case& c) { c.plan.system = "gpipe"; }),
              HasSubstr("schedule 'gpipe' under runtime 'megatron-deepspeed'"));
  EXPECT_THAT(refused([](Case& c) {
                c.plan.virtual_workers[0].stages[0].devices.push_back({"n2", 0});
                c.plan.virtual_workers.pop_back();
              }),
              HasSubstr("several devices in stage 0"));
  EXPECT_THAT(refused([](Case& c) {
                auto& stages = c.plan.virtual_workers[1].stages;
                stages.pop_back();
                stages[0].end_layer = 2;
              }),
              HasSubstr("virtual worker 1 partitioned differently from virtual worker 0"));
}

// P = 7; two of five micro-batches held: activations 2 * 11, received 2 + 1 times 3, sent 5.
TEST(MegatronLedger, CountsWhatStandsInItsHead) {
  StageFootprint footprint;
  footprint.parameters = 7;
  footprint.stash = 11;
  footprint.received = 3;
  footprint.sent = 5;
  const MemoryLedger ledger = megatron_stage_ledger(footprint, 6, 4, StageId{2}, 5, 1000);
  EXPECT_EQ(ledger.total(), 5 * 7 + 2 * 11 + 3 * 3 + 5 + 6 + 1000);
  ASSERT_EQ(ledger.lines.size(), 8U);
  EXPECT_EQ(ledger.lines[4].name, "activations");
  EXPECT_EQ(ledger.lines[4].bytes, 22);
  // No more in flight than there are micro-batches.
  EXPECT_EQ(megatron_stage_ledger(footprint, 6, 4, StageId{0}, 2, 0).total(),
            5 * 7 + 2 * 11 + 3 * 3 + 5 + 6);
  // Recomputed: one stash, of the micro-batch whose B runs.
  EXPECT_EQ(
      megatron_stage_ledger(footprint, 6, 4, StageId{2}, 5, 0, {Precision::fp32, true}).total(),
      5 * 7 + 11 + 3 * 3 + 5 + 6);
  // In fp16, of 8 bytes: weights and gradients 4 each, fp32 weights and moments 24, flat gradients.
  StageFootprint eight;
  eight.parameters = 8;
  EXPECT_EQ(megatron_stage_ledger(eight, 0, 1, StageId{0}, 1, 0, {Precision::fp16}).total(),
            4 + 4 + 24 + 4);
  EXPECT_EQ(megatron_stage_ledger(eight, 0, 1, StageId{0}, 1, 0, {Precision::bf16}).total(),
            4 + 12 + 24 + 8);
  // Gradients are all-reduced in buckets of 500 million floats.
  StageFootprint large;
  large.parameters = 3'000'000'000;
  EXPECT_EQ(megatron_stage_ledger(large, 0, 1, StageId{0}, 1, 0).total(),
            4 * 3'000'000'000 + 2'000'000'000);
}

}  // namespace megatron_test
}  // namespace hetpipe
