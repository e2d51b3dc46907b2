// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"

namespace hetpipe {
namespace {

std::string drawn(const MemoryLedger& ledger) {
  std::string text;
  for (const LedgerLine& line : ledger.lines)
    text += line.name + " " + std::to_string(line.bytes) + "\n";
  return text + "total " + std::to_string(ledger.total());
}

const StageFootprint kFootprint{100, 10, 4, 3, 7};

// Stage 1 of 3 with Nm = 4 holds 2 minibatches, so that it holds 2 updates back.
TEST(StageLedger, LineByLine) {
  EXPECT_EQ(drawn(stage_ledger(kFootprint, {3, 4, 1, true, 1}, StageId{1})),
            "weights 100\n"
            "gradients 100\n"
            "optimizer 100\n"
            "stashed versions 200\n"
            "late updates 200\n"
            "wave updates 300\n"
            "activations 20\n"
            "messages 18\n"
            "workspace 21\n"
            "total 1059");
}

TEST(StageLedger, LinesOfNothingAreLeftOut) {
  EXPECT_EQ(drawn(stage_ledger({100, 10, 0, 0, 0}, {1, 1, 0, false, 0}, StageId{0})),
            "weights 100\ngradients 100\nstashed versions 100\nactivations 10\ntotal 310");
}

TEST(StageFootprint, CountsTensorsOncePerStageAndTiedWeightsOnce) {
  Profile p = test::chain_of(5, {"a"}, [](const auto&) { return 1.0; });
  p.layers[4].inputs = {3, 0};  // a skip over both cuts
  p.layers[3].inputs = {2, 0};
  p.layers[3].shares = "layer2";
  LayerCosts costs;
  costs.output_bytes = {1, 10, 100, 1000, 10000};
  costs.stash_bytes = {2, 20, 200, 2000, 20000};
  const std::vector<int> ends{2, 4, 5};
  const StageFootprint front = stage_footprint(p, costs, ends, StageId{0}, 3);
  EXPECT_EQ(front.parameters, 2000);
  EXPECT_EQ(front.stash, 3 * 22);
  EXPECT_EQ(front.received, 0);
  EXPECT_EQ(front.sent, 3 * (1 + 10 + 1));  // layer 0 to both
  EXPECT_EQ(front.largest_output, 10);
  const StageFootprint middle = stage_footprint(p, costs, ends, StageId{1}, 3);
  EXPECT_EQ(middle.parameters, 1000);  // layer 3 uses the ones of layer 2
  EXPECT_EQ(middle.received, 3 * 11);
  EXPECT_EQ(middle.sent, 3 * 1000);
  const StageFootprint last = stage_footprint(p, costs, ends, StageId{2}, 3);
  EXPECT_EQ(last.received, 3 * 1001);
  EXPECT_EQ(last.sent, 0);
}

TEST(OptimizerSlots, KnowsItsNames) {
  EXPECT_EQ(optimizer_slots("sgd"), 0);
  EXPECT_EQ(optimizer_slots("sgd-momentum"), 1);
  EXPECT_EQ(optimizer_slots("adam"), 2);
  EXPECT_THAT(test::user_error([] { optimizer_slots("adamm"); }), testing::HasSubstr("'adam'"));
}

}  // namespace
}  // namespace hetpipe
