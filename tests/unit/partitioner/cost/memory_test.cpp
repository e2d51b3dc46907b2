// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "base/text.h"
#include "partitioner/plan/optimizer_rule.h"

namespace hetpipe {
namespace cost_memory_test {

std::string drawn(const MemoryLedger& ledger) {
  std::string text;
  for (const LedgerLine& line : ledger.lines)
    text += line.name + " " + std::to_string(line.bytes) + "\n";
  return text + "total " + std::to_string(ledger.total());
}

const StageFootprint kFootprint{100, 10, 4, 3, 7, 0, 0, 3};

// Stage 1 of 3 with Nm = 4 holds 2 minibatches, so that it holds 2 updates back; stage 0 holds 4, so
// that 2 gradients may wait behind the one that is made.
TEST(StageLedger, LineByLine) {
  EXPECT_EQ(drawn(stage_ledger(kFootprint, {3, 4, 1, true, 1}, StageId{1})),
            "weights 100\n"
            "gradients 100\n"
            "optimizer 100\n"
            "stashed versions 100\n"
            "deferred updates 200\n"
            "wave updates 400\n"
            "activations 20\n"
            "messages 27\n"
            "workspace 7\n"
            "total 1054");
}

// Of D + 2 sums, the one that is made stays fp32; what has been pushed takes half.
TEST(StageLedger, PushesInBf16TakeHalf) {
  PipelineShape shape{3, 4, 1, true, 1};
  const std::int64_t whole = stage_ledger(kFootprint, shape, StageId{1}).total();
  shape.halves_pushes = true;
  const MemoryLedger halved = stage_ledger(kFootprint, shape, StageId{1});
  EXPECT_THAT(drawn(halved), testing::HasSubstr("\nwave updates 300\n"));
  EXPECT_EQ(halved.total(), whole - 2 * 100 / 2);
  EXPECT_EQ(memory_bound(shape, StageId{1}).bytes({kFootprint}), halved.total());
  shape.server = false;
  EXPECT_EQ(drawn(stage_ledger(kFootprint, shape, StageId{1})),
            drawn(stage_ledger(kFootprint, {3, 4, 1, false, 1}, StageId{1})));
}

TEST(StageLedger, LinesOfNothingAreLeftOut) {
  EXPECT_EQ(drawn(stage_ledger({100, 10, 0, 0, 0}, {1, 1, 0, false, 0}, StageId{0})),
            "weights 100\ngradients 100\nactivations 10\ntotal 210");
}

// Layer 1 ends a stage: where layer 2 reads it in the next one, only that one keeps it.
TEST(StageFootprint, AnOutputForReadersElsewhereIsNotKept) {
  Profile p = test::chain_of(4, {"a"}, [](const auto&) { return 1.0; });
  for (const int l : {0, 1}) p.layers[static_cast<std::size_t>(l)].kept_for_readers = true;
  LayerCosts costs;
  costs.output_bytes = {1, 10, 100, 1000};
  costs.stash_bytes = {3, 30, 300, 3000};
  const std::vector<int> ends{2, 4};
  EXPECT_EQ(stage_footprint(p, costs, ends, StageId{0}, 2).stash, 2 * (3 + 20));
  EXPECT_EQ(stage_footprint(p, costs, ends, StageId{1}, 2).stash, 2 * 3300);
  EXPECT_EQ(stage_footprint(p, costs, ends, StageId{1}, 2).received_once, 10);
  p.layers[1].inputs = {0};
  p.layers[2].inputs = {1};
  p.layers[3].inputs = {2, 0};  // has it from layer 0, which layer 1 reads too
  EXPECT_EQ(stage_footprint(p, costs, ends, StageId{0}, 2).stash, 2 * (3 + 20));
}

// Layers 0 and 1 have parameters, layer 2 none; layer 3 begins the next stage.
TEST(StageFootprint, WhatWaitsBetweenBAndW) {
  Profile p = test::chain_of(4, {"a"}, [](const auto&) { return 1.0; });
  p.layers[0].parameter_bytes = 500;
  p.layers[1].parameter_bytes = 400;
  p.layers[2].parameter_bytes = 0;
  LayerCosts costs;
  costs.output_bytes = {1, 10, 100, 1000};
  costs.stash_bytes = {3, 30, 300, 3000};
  const StageFootprint front = stage_footprint(p, costs, std::vector<int>{3, 4}, StageId{0}, 2);
  EXPECT_EQ(front.waiting, 1 + 10);
  EXPECT_EQ(front.freed_early, 300 - 100);
  EXPECT_EQ(front.late_adding, 500 - (300 + 30 + 10));
  EXPECT_EQ(front.stash_once, 333);
  // What the later stage sends is a message.
  EXPECT_EQ(stage_footprint(p, costs, std::vector<int>{2, 4}, StageId{0}, 2).waiting, 1);
}

// A stage of a convolution, a pool, a convolution: the pool's backward holds two gradients, when
// the stash of the layer behind it has gone.
TEST(StageFootprint, CountsBothGradientsOfABackwardThatHoldsThemApart) {
  Profile p = test::chain_of(5, {"a"}, [](const auto&) { return 1.0; });
  LayerCosts costs;
  costs.output_bytes = {1000, 300, 200, 50, 10};
  costs.stash_bytes = {1000, 20, 7, 5, 5};
  const auto gradients = [&](const std::vector<int>& ends, int stage) {
    return stage_footprint(p, costs, ends, StageId{stage}, 2).gradients;
  };
  EXPECT_EQ(gradients({5}, 0), 0);  // as far as is known, all in place
  p.layers[1].gradients_apart = true;
  EXPECT_EQ(gradients({5}, 0), 1000 + 300 - (7 + 5 + 5));
  EXPECT_EQ(gradients({3, 5}, 0), 1000 + 300 - 7);
  EXPECT_EQ(gradients({2, 5}, 0), 0);  // that of its output is a message
  EXPECT_EQ(gradients({1, 5}, 1), 0);  // that of its input is
  // Where it is known what kernels take, all layers of a chain are counted so.
  costs.scratch_bytes = {1, 20, 300, 4000, 0};
  EXPECT_EQ(gradients({5}, 0), 50 + 4000 - 5);
  EXPECT_EQ(stage_footprint(p, costs, std::vector<int>{5}, StageId{0}, 2).working, 10);  // the last
  EXPECT_EQ(gradients({3, 5}, 0), 1000 + 300 + 20 - 7);
  p.layers[2].parameter_bytes = 5000;  // of another, to which they are added
  EXPECT_EQ(stage_footprint(p, costs, std::vector<int>{4, 5}, StageId{0}, 2).adding,
            200 + 300 + 5000 - 5);
  costs.scratch_bytes.clear();
  p.layers[4].inputs = {3, 0};  // read in two places
  EXPECT_EQ(gradients({5}, 0), 0);
}

// With two minibatches in flight the last stage holds one: a snapshot comes between its passes, in
// the place of what they work with.
TEST(StageLedger, ASnapshotBetweenTwoPasses) {
  StageFootprint one{100, 10, 4, 0, 7};
  one.received_once = 4;
  EXPECT_THAT(drawn(stage_ledger(one, {2, 2, 1, true, 0}, StageId{1})),
              testing::HasSubstr(format("wave updates %d\n", 2 * 100 + (100 - 7 - 10 - 4))));
  EXPECT_THAT(drawn(stage_ledger(one, {2, 2, 1, true, 0}, StageId{0})),
              testing::HasSubstr("wave updates 200\n"));
  one.parameters = 20;  // less than what they work with
  EXPECT_THAT(drawn(stage_ledger(one, {2, 2, 1, true, 0}, StageId{1})),
              testing::HasSubstr("wave updates 40\n"));
}

// A wave of one minibatch is summed up behind its backward, in the place of what that worked with,
// unless later ones of its round add to it. D more waves wait for a label.
TEST(StageLedger, AWaveOfOneMinibatchIsSummedUpBetweenTwoPasses) {
  StageFootprint one{100, 10, 4, 3, 7};
  one.received_once = 4;
  const auto waves = [&](const PipelineShape& shape) {
    const MemoryLedger ledger = stage_ledger(one, shape, StageId{1});
    EXPECT_EQ(memory_bound(shape, StageId{1}).bytes({one}), ledger.total());
    for (const LedgerLine& line : ledger.lines) {
      if (line.name == "wave updates") return line.bytes;
    }
    return std::int64_t{0};
  };
  PipelineShape shape{3, 1, 1, true, 0};
  EXPECT_EQ(waves(shape), 100 + (100 - 7 - 10 - 4 - 3));
  shape.clock_distance = 2;
  EXPECT_EQ(waves(shape), 300 + (100 - 7 - 10 - 4 - 3));
  shape.clock_distance = 0;
  shape.round = 2;
  EXPECT_EQ(waves(shape), 200);
  shape.round = 1;
  shape.halves_pushes = true;  // a whole sum and a snapshot, while no half is there
  EXPECT_EQ(waves(shape), 50 + (150 - 7 - 10 - 4 - 3));
  one.parameters = 20;  // less than what passes work with
  EXPECT_EQ(waves(shape), 10 + (30 - 7 - 10 - 4 - 3));
  one.parameters = 8;
  EXPECT_EQ(waves(shape), 4);
}

// Gradients of a layer that is a stage are messages. Its output may be larger than the message that
// goes back later.
TEST(StageFootprint, OfOneLayerWhoseKernelsAreKnown) {
  const Profile p = test::chain_of(3, {"a"}, [](const auto&) { return 1.0; });
  LayerCosts costs;
  costs.output_bytes = {100, 70, 10};
  costs.stash_bytes = {5, 5, 5};
  const std::vector<int> ends{1, 2, 3};
  const auto working = [&](int stage) {
    return stage_footprint(p, costs, ends, StageId{stage}, 1).working;
  };
  EXPECT_EQ(working(1), 70);
  costs.scratch_bytes = {0, 8, 0};
  EXPECT_EQ(working(0), 100);
  EXPECT_EQ(working(1), 8);
  costs.output_bytes = {30, 70, 10};
  EXPECT_EQ(working(1), 70 - 30);
}

// Layer 2 reads what layer 0 makes, too, and so does layer 4 in the next stage.
TEST(StageFootprint, CountsGradientsThatWaitForALayerOfTheStage) {
  Profile p = test::chain_of(5, {"a"}, [](const auto&) { return 1.0; });
  p.layers[2].inputs = {1, 0};
  p.layers[2].gradients_apart = true;
  p.layers[4].inputs = {3, 0};
  LayerCosts costs;
  costs.output_bytes = {100, 40, 30, 20, 10};
  costs.stash_bytes = {1, 2, 4, 8, 16};
  const auto of = [&](const std::vector<int>& ends, int stage) {
    return stage_footprint(p, costs, ends, StageId{stage}, 1);
  };
  EXPECT_EQ(of({5}, 0).working, 100);
  EXPECT_EQ(of({4, 5}, 0).working, 100);
  // As far as is known: of what waits beside, as much again.
  EXPECT_EQ(of({5}, 0).gradients, 30 + 30 + 40 + 100 - 24);
  costs.scratch_bytes = {0, 0, 0, 0, 0};
  // Both inputs of layer 2, as its backward begins; the last two have freed what they stashed.
  EXPECT_EQ(of({5}, 0).gradients, 30 + 100 + 40 + 100 - 24);
  EXPECT_EQ(of({4, 5}, 0).gradients, 30 + 100 + 40 - 8);  // layer 4 sends its part
  EXPECT_EQ(of({1, 5}, 1).gradients, 30 + 40 - 24);       // layer 0 gets its own
}

TEST(StageFootprint, CountsTensorsOncePerStageAndTiedWeightsOnce) {
  Profile p = test::chain_of(5, {"a"}, [](const auto&) { return 1.0; });
  p.layers[4].inputs = {3, 0};  // a skip over both cuts
  p.layers[3].inputs = {2, 0};
  p.layers[3].shares = "layer2";
  p.layers[4].shares = "layer0";
  LayerCosts costs;
  costs.output_bytes = {1, 10, 100, 1000, 10000};
  costs.stash_bytes = {2, 20, 200, 2000, 20000};
  const std::vector<int> ends{2, 4, 5};
  const StageFootprint front = stage_footprint(p, costs, ends, StageId{0}, 3);
  EXPECT_EQ(front.parameters, 2000);
  EXPECT_EQ(front.stash, 3 * 22);
  EXPECT_EQ(front.received, 0);
  EXPECT_EQ(front.sent, 3 * (1 + 10 + 1));  // layer 0 to both
  EXPECT_EQ(front.working, 10);  // the gradient of layer 0, which passes by, is a message
  const StageFootprint middle = stage_footprint(p, costs, ends, StageId{1}, 3);
  EXPECT_EQ(middle.parameters, 1000);  // layer 3 uses the ones of layer 2
  EXPECT_EQ(middle.uses, 1000);
  EXPECT_EQ(middle.foreign + middle.tied_sent + middle.tied_received, 0);
  EXPECT_EQ(middle.received, 3 * 11);
  EXPECT_EQ(middle.sent, 3 * 1000);
  const StageFootprint last = stage_footprint(p, costs, ends, StageId{2}, 3);
  EXPECT_EQ(last.received, 3 * 1001);
  EXPECT_EQ(last.sent, 0);
  EXPECT_EQ(last.parameters, 0);  // layer 4 uses the ones of layer 0
  EXPECT_EQ(last.uses, 1000);
  EXPECT_EQ(last.foreign, 1000);
  EXPECT_EQ(front.tied_sent, 1000);
  EXPECT_EQ(front.tied_received, 1000);
}

TEST(OptimizerSlots, KnowsItsNames) {
  EXPECT_EQ(optimizer_slots("sgd"), 0);
  EXPECT_EQ(optimizer_slots("sgd-momentum"), 1);
  EXPECT_EQ(optimizer_slots("adam"), 2);
  EXPECT_EQ(optimizer_slots("adamw"), 2);
  EXPECT_EQ(optimizer_slots("lamb"), 2);
  // Predictions along the last update need it.
  EXPECT_EQ(optimizer_slots("sgd", true), 1);
  EXPECT_EQ(optimizer_slots("sgd-momentum", true), 1);
  EXPECT_EQ(optimizer_slots("adamw", true), 2);
  EXPECT_EQ(optimizer_slots("lamb", true), 3);
  EXPECT_THAT(test::user_error([] { optimizer_slots("adamm"); }), testing::HasSubstr("'adam'"));
}

std::string shown(const MemoryRule& rule, const ScheduleRequest& request, int device,
                  Keep keep = Keep::activations) {
  HeldTable table;
  const ChunkMemory chunk{{100, 10, 4, 3, 7, 2}, keep};
  return drawn(device_ledger(rule, table.of(rule.schedule, request), device, {&chunk, 1}));
}

using Rule = ScheduleRule;
using Weights = WeightRule;
constexpr StageSync kAllReduce = StageSync::all_reduce;

// The counted schedule gives what the continuous executor's own formula gives.
TEST(DeviceLedger, EqualsTheContinuousExecutors) {
  HeldTable table;
  const ChunkMemory chunk{kFootprint};
  for (int stages = 1; stages <= 5; ++stages) {
    for (int in_flight = 1; in_flight <= 9; ++in_flight) {
      MemoryRule rule;
      rule.in_flight = in_flight;
      rule.server = true;
      rule.clock_distance = 4;
      const auto& counts = table.of(rule.schedule, {stages, 1, 1, in_flight});
      for (int k = 0; k < stages; ++k) {
        EXPECT_EQ(drawn(device_ledger(rule, counts, k, {&chunk, 1})),
                  drawn(stage_ledger(kFootprint, {stages, in_flight, 1, true, 4}, StageId{k})));
      }
    }
  }
}

// Stage 1 of 3 holds 2 of the 4 micro-batches.
TEST(DeviceLedger, OneVersionUnderAFlush) {
  const MemoryRule rule{Rule::flush_1f1b, Weights::one_version, kAllReduce, 1, 2, false, 0, 3};
  EXPECT_EQ(shown(rule, {3, 1, 4}, 1),
            "weights 100\ngradients 100\noptimizer 200\nall-reduce 100\nactivations 20\n"
            "messages 18\nworkspace 7\ntotal 545");
}

TEST(DeviceLedger, AnAverageOfTheWeightsIsOneMore) {
  MemoryRule rule{Rule::flush_1f1b, Weights::one_version, kAllReduce, 1, 2, false, 0, 3};
  rule.average = true;
  EXPECT_EQ(shown(rule, {3, 1, 4}, 1),
            "weights 100\ngradients 100\noptimizer 200\naverage 100\nall-reduce 100\n"
            "activations 20\nmessages 18\nworkspace 7\ntotal 645");
  EXPECT_EQ(stage_ledger(kFootprint, {3, 4, 1, false, 0, 1, true}, StageId{1}).total(),
            stage_ledger(kFootprint, {3, 4, 1, false, 0, 1, false}, StageId{1}).total() + 100);
}

// Gradients of many pieces need no more than four.
TEST(DeviceLedger, AllReduceHoldsAFewPieces) {
  const MemoryRule rule{Rule::gpipe, Weights::one_version, kAllReduce, 1, 0, false, 0, 2};
  HeldTable table;
  for (const auto& [parameters, held] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {100, 100}, {8193, 16384}, {262144, 65536}, {786433, 196608}, {900000000, 1048576}}) {
    const ChunkMemory chunk{{parameters}, Keep::activations};
    const MemoryLedger ledger = device_ledger(rule, table.of(rule.schedule, {1}), 0, {&chunk, 1});
    EXPECT_EQ(ledger.total(), 2 * parameters + held);
  }
}

// Inputs of the micro-batches that are held, and one micro-batch's activations.
TEST(DeviceLedger, Recomputation) {
  const MemoryRule rule{Rule::gpipe, Weights::one_version, kAllReduce, 1, 0};
  EXPECT_EQ(shown(rule, {2, 1, 8}, 0, Keep::inputs),
            "weights 100\ngradients 100\nactivations 26\nmessages 42\nworkspace 7\ntotal 275");
  // ZB-H1's stage 2 waits with two W while it computes the next B.
  const MemoryRule split{Rule::zb_h1, Weights::one_version, kAllReduce, 1, 0};
  EXPECT_THAT(shown(split, {3, 1, 8}, 2, Keep::inputs),
              testing::HasSubstr("activations 36\n"));  // 3 * 2 + 3 * 10
}

TEST(DeviceLedger, VersionsOfTheWeights) {
  const auto lines = [](Rule schedule, Weights weights, const ScheduleRequest& request,
                        int device) {
    const MemoryRule rule{schedule, weights, kAllReduce, request.in_flight, 0};
    std::string text = shown(rule, request, device);
    text.erase(0, std::string("weights 100\ngradients 100\n").size());
    return text.substr(0, text.find("activations"));
  };
  const ScheduleRequest four{4, 1, 1, 4};
  EXPECT_EQ(lines(Rule::continuous_1f1b, Weights::newest, four, 0), "");
  // PipeDream: N - s versions, the newest among them; with vertical sync every stage keeps what
  // stage 0 began with.
  EXPECT_EQ(lines(Rule::continuous_1f1b, Weights::stash, four, 1), "stashed versions 200\n");
  EXPECT_EQ(lines(Rule::continuous_1f1b, Weights::vertical_sync, four, 1),
            "stashed versions 200\ndeferred updates 100\n");
  EXPECT_EQ(lines(Rule::continuous_1f1b, Weights::two_versions, four, 1),
            "second version 100\nsummed update 93\n");  // beyond the workspace
  EXPECT_EQ(lines(Rule::continuous_1f1b, Weights::predicted, four, 1), "predicted weights 100\n");
  EXPECT_EQ(lines(Rule::xpipe, Weights::bellwether, {4, 1, 1}, 0), "predicted weights 100\n");
  EXPECT_EQ(lines(Rule::xpipe, Weights::bellwether, {4, 1, 4}, 0), "predicted weights 200\n");
  EXPECT_EQ(lines(Rule::nf1b, Weights::mixed, {3, 1, 2}, 1), "");
  // Its older version is needed by forwards alone, when no gradient is there.
  EXPECT_EQ(lines(Rule::nf1b, Weights::mixed, {2, 1, 3}, 0) +
                lines(Rule::nf1b, Weights::mixed, {2, 1, 3}, 1),
            "");
}

// A forward's prediction and a gradient are not there together where one B is a minibatch's whole
// backward; a backward's are.
TEST(DeviceLedger, PredictionsOfThePassesThatLookAhead) {
  const auto predicted = [](Rule schedule, Weights weights, const ScheduleRequest& request,
                            bool forward, bool backward) {
    MemoryRule rule{schedule, weights, kAllReduce, request.in_flight, 0};
    rule.forward_ahead = forward;
    rule.backward_ahead = backward;
    HeldTable table;
    const ChunkMemory chunk{{100}};
    return device_ledger(rule, table.of(schedule, request), 0, {&chunk, 1}).total() - 200;
  };
  const ScheduleRequest whole{4, 1, 1, 4};
  EXPECT_EQ(predicted(Rule::continuous_1f1b, Weights::predicted, whole, true, false), 0);
  EXPECT_EQ(predicted(Rule::continuous_1f1b, Weights::predicted, whole, false, true), 100);
  EXPECT_EQ(predicted(Rule::continuous_1f1b, Weights::predicted, whole, true, true), 100);
  const ScheduleRequest four{4, 1, 4};  // forwards and backwards of micro-batches alternate
  EXPECT_EQ(predicted(Rule::xpipe, Weights::bellwether, four, true, false), 100);
  EXPECT_EQ(predicted(Rule::xpipe, Weights::bellwether, four, false, true), 100);
  EXPECT_EQ(predicted(Rule::xpipe, Weights::bellwether, four, true, true), 200);
}

// ZB-H1's stage 2 of 3 holds 3 micro-batches whose W are to come: gradients of each, and what came
// in for the two before the last; less what B freed of these two.
TEST(DeviceLedger, WhatWaitsForAW) {
  StageFootprint one{100, 10, 4, 3, 7};
  one.waiting = 6;
  one.freed_early = 2;
  one.late_adding = 9;
  const ChunkMemory chunk{one};
  HeldTable table;
  MemoryRule rule{Rule::zb_h1, Weights::one_version, kAllReduce, 1, 0};
  const auto ledger = [&] {
    return drawn(device_ledger(rule, table.of(rule.schedule, {3, 1, 8}), 2, {&chunk, 1}));
  };
  EXPECT_EQ(ledger(),
            "weights 100\ngradients 100\nactivations 26\nmessages 28\nwaiting gradients 18\n"
            "workspace 1\ntotal 273");
  rule.adds_gradients = true;
  EXPECT_THAT(ledger(), testing::HasSubstr("workspace 9\n"));
}

// One B for 3 micro-batches: their gradients come in one message, and are unpacked beside it. Before
// that B, 3 activations of the next minibatch may wait for the last stage.
TEST(DeviceLedger, GradientsOfSeveralMicroBatches) {
  HeldTable table;
  MemoryRule rule{Rule::nf1b, Weights::mixed, kAllReduce, 1, 0};
  rule.micro_batches_of_backward = 3;
  const auto messages = [&](std::int64_t working) {
    const ChunkMemory chunk{{100, 10, 0, 50, working}};
    return drawn(device_ledger(rule, table.of(rule.schedule, {2, 1, 3}), 0, {&chunk, 1}));
  };
  EXPECT_THAT(messages(5), testing::HasSubstr("messages 595\nworkspace 5\n"));  // 3 * 150 - 5 + 150
  EXPECT_THAT(messages(100), testing::HasSubstr("messages 500\nworkspace 100\n"));
}

// DAPPLE's claim: peak memory does not depend on the number of micro-batches; GPipe's grows with
// it.
TEST(DeviceLedger, GrowsWithMicroBatchesUnderGPipeAlone) {
  const auto total = [](Rule schedule, int micro_batches, int device) {
    HeldTable table;
    const MemoryRule rule{schedule, Weights::one_version, kAllReduce, 1, 0};
    const ChunkMemory chunk{kFootprint};
    return device_ledger(rule, table.of(schedule, {4, 1, micro_batches}), device, {&chunk, 1})
        .total();
  };
  for (int device = 0; device < 4; ++device) {
    for (const Rule rule : {Rule::dapple_pa, Rule::dapple_pb, Rule::flush_1f1b, Rule::zb_h1}) {
      EXPECT_EQ(total(rule, 16, device), total(rule, 64, device));
    }
    EXPECT_EQ(total(Rule::gpipe, 64, device) - total(Rule::gpipe, 16, device), 48 * (10 + 4));
  }
}

// Device 0 of 2 holds 3 of chunk 0 and 2 of chunk 1, then 4 and 1: the larger need counts.
TEST(DeviceLedger, AddsUpTheChunks) {
  HeldTable table;
  const MemoryRule rule{Rule::interleaved_1f1b, Weights::one_version, kAllReduce, 1, 0};
  const auto activations = [&](std::int64_t first, std::int64_t second) {
    const std::vector<ChunkMemory> chunks{{{50, first}}, {{60, second}}};
    return drawn(device_ledger(rule, table.of(rule.schedule, {2, 2, 4}), 0, chunks));
  };
  EXPECT_EQ(activations(10, 100), "weights 110\ngradients 110\nactivations 230\ntotal 450");
  EXPECT_EQ(activations(100, 10), "weights 110\ngradients 110\nactivations 410\ntotal 630");
}

// Of a plan: replicas at their share of the micro-batch, each on its own device.
TEST(PlanLedger, EachReplicaHasItsShare) {
  const Cluster cluster = test::cluster_of({{"a", "a"}, {"a"}}, 1 << 30);
  const Profile profile = test::chain_of(4, {"a"}, [](const auto&) { return 1.0; });
  Plan plan;
  plan.system = "dapple";
  plan.minibatch = 128;
  plan.micro_batches = 4;  // of 32 samples, 4000 bytes of stash per layer
  plan.optimizer = "sgd";
  plan.virtual_workers = {
      {{},
       {{0, 2, {{"n0", 0}, {"n0", 1}}, {24, 8}, false, {}}, {2, 4, {{"n1", 0}}, {}, true, {}}}}};
  const auto ledger = [&](int stage, std::optional<int> replica) {
    return drawn(stage_ledger(plan, cluster, profile, VirtualWorkerId{0}, StageId{stage}, replica));
  };
  EXPECT_EQ(ledger(0, 0),
            "weights 2000\ngradients 2000\nall-reduce 2000\nactivations 12000\nmessages 6000\n"
            "workspace 4000\ntotal 28000");
  EXPECT_EQ(ledger(0, 1),
            "weights 2000\ngradients 2000\nall-reduce 2000\nactivations 4000\nmessages 2000\n"
            "workspace 2000\ntotal 14000");
  EXPECT_EQ(ledger(0, {}), ledger(0, 0));  // the fullest
  // With 80 kB and 20 kB the second replica is fuller (70 %), though it needs less.
  Cluster small = test::cluster_of({{"a", "b"}, {"a"}}, 80'000);
  small.kinds[1].memory = 20'000;
  const Profile both = test::chain_of(4, {"a", "b"}, [](const auto&) { return 1.0; });
  const StageNeed need = fullest_replica(plan, small, both, VirtualWorkerId{0}, StageId{0});
  EXPECT_EQ(need.replica, 1);
  EXPECT_EQ(need.device, (DeviceName{"n0", 1}));
  EXPECT_EQ(drawn(need.ledger), ledger(0, 1));
  EXPECT_EQ(need.memory, 20'000);
  EXPECT_DOUBLE_EQ(need.full(), 0.7);
  EXPECT_EQ(ledger(1, {}),  // recomputes: one stash, inputs are messages
            "weights 2000\ngradients 2000\nactivations 8000\nmessages 16000\nworkspace 5000\n"
            "total 33000");
}

// Of the one micro-batch that is next; where a CPU computes, the host's memory is the device's.
TEST(PlanLedger, SamplesComeAhead) {
  Profile profile = test::chain_of(2, {"a", "cpu"}, [](const auto&) { return 1.0; });
  profile.layers[0].input_bytes = 10;
  Cluster cluster = test::cluster_of({{"a", "cpu", "slow-a", "slow-cpu"}}, 1 << 30);
  cluster.kinds[2].emulate = Emulation{.slowdown = 2, .of = "a"};
  cluster.kinds[3].emulate = Emulation{.slowdown = 2};
  Plan plan;
  plan.system = "pipedream-flush";
  plan.minibatch = 128;
  plan.micro_batches = 4;
  plan.optimizer = "sgd";
  const auto ahead = [&](int index) -> std::int64_t {
    plan.virtual_workers = {{{}, {{0, 2, {{"n0", index}}, {}, false, {}}}}};
    for (const LedgerLine& line :
         stage_ledger(plan, cluster, profile, VirtualWorkerId{0}, StageId{0}).lines) {
      if (line.name == "samples ahead") return line.bytes;
    }
    return 0;
  };
  EXPECT_EQ(ahead(0), 32 * 10);
  EXPECT_EQ(ahead(1), 0);
  EXPECT_EQ(ahead(2), 32 * 10);
  EXPECT_EQ(ahead(3), 0);
}

}  // namespace cost_memory_test
}  // namespace hetpipe
