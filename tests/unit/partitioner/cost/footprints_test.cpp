// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/footprints.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/pipeline_bound.h"

namespace hetpipe {
namespace footprints_test {

struct Case {
  Profile profile;
  LayerCosts costs;
  std::vector<int> ends;  // of a cut in up to five stages
};

// Chains with skips, tied layers, layers kept for their readers and several sources.
Case random_case(std::mt19937& random) {
  const auto below = [&](int most) { return static_cast<int>(random() % most); };
  Case c;
  const bool measured = below(2) == 0;
  const int layers = 5 + below(8);
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0 && below(8) > 0) layer.inputs.push_back(l - 1);
    if (l > 1 && below(3) == 0) layer.inputs.insert(layer.inputs.begin(), below(l - 1));
    if (layer.inputs.empty()) layer.input_bytes = 0.5 + below(100);
    layer.parameter_bytes = below(3) == 0 ? 0 : below(1000);
    if (l > 0 && below(4) == 0) layer.shares = "layer" + std::to_string(below(l));
    layer.kept_for_readers = below(3) == 0;
    layer.gradients_apart = below(2) == 0;
    c.profile.layers.push_back(layer);
    c.costs.output_bytes.push_back(below(100));
    c.costs.stash_bytes.push_back(below(200));
    if (measured) c.costs.scratch_bytes.push_back(below(50));
  }
  c.costs.own_memory = below(2) == 0;
  std::vector<bool> cut(static_cast<std::size_t>(layers), false);
  for (int k = 0; k < 4; ++k) cut[static_cast<std::size_t>(below(layers))] = true;
  for (int l = 1; l < layers; ++l) {
    if (cut[static_cast<std::size_t>(l)]) c.ends.push_back(l);
  }
  c.ends.push_back(layers);
  return c;
}

std::shared_ptr<const LayerFootprints> layers_of(const Case& c) {
  return std::make_shared<const LayerFootprints>(
      c.profile, std::make_shared<const ModelCuts>(c.profile), c.costs, 8);
}

TEST(Footprints, AreThoseOfTheStagesOneByOne) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const Case c = random_case(random);
    const int micro_batches = 1 + static_cast<int>(random() % 3);
    const Footprints table(layers_of(c), micro_batches);
    int first = 0;
    for (std::size_t k = 0; k < c.ends.size(); ++k) {
      SCOPED_TRACE("round " + std::to_string(round) + ", stage " + std::to_string(k));
      const StageId stage{static_cast<int>(k)};
      const int end = c.ends[k];
      StageFootprint expected = stage_footprint(c.profile, c.costs, c.ends, stage, micro_batches);
      double read = 0;
      for (int l = first; l < end; ++l) {
        const ProfileLayer& layer = c.profile.layers[static_cast<std::size_t>(l)];
        if (!layer.inputs.empty()) continue;
        read += layer.input_bytes * 8 * micro_batches;
        if (!c.costs.own_memory) continue;
        expected.samples_ahead =
            std::max(expected.samples_ahead, static_cast<std::int64_t>(layer.input_bytes * 8));
      }
      expected.samples = static_cast<std::int64_t>(read);
      StageFootprint whole = table.of(c.ends, stage);
      table.add_late(whole, first, end);
      EXPECT_EQ(whole, expected);

      StageFootprint least = table.least(first, end);
      table.add_late(least, first, end);
      EXPECT_LE(least.sent, expected.sent);
      EXPECT_LE(least.tied_sent, expected.tied_sent);
      least.sent = expected.sent;
      least.tied_sent = expected.tied_sent;
      EXPECT_EQ(least, expected);

      StageFootprint alone = table.alone(first, end);
      table.add_late(alone, first, end);
      EXPECT_EQ(alone.received, 0);
      EXPECT_EQ(alone.sent, 0);
      EXPECT_EQ(alone.tied_sent + alone.tied_received, 0);
      alone.tied_sent = expected.tied_sent;
      alone.tied_received = expected.tied_received;
      alone.sent = expected.sent;
      alone.received = expected.received;
      alone.received_once = expected.received_once;
      EXPECT_EQ(alone, expected);
      first = end;
    }
  }
}

// Skips between the two halves, as a U-net has, or a tensor that all layers of the second half
// read, beside those of random_case(): tensors from before a stage and those that go behind it
// bypass the same layers.
Case case_of_long_skips(std::mt19937& random) {
  Case c = random_case(random);
  const int layers = static_cast<int>(c.profile.layers.size());
  const bool shared = random() % 3 == 0;
  for (int l = layers / 2 + 1; l < layers; ++l) {
    std::vector<int>& inputs = c.profile.layers[static_cast<std::size_t>(l)].inputs;
    if (!shared && random() % 3 == 0) continue;
    inputs.push_back(shared ? layers / 3 : layers - l);
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
  }
  return c;
}

TEST(Footprints, OfLongSkipsAreThoseOfTheStagesOneByOne) {
  std::mt19937 random(20);
  for (int round = 0; round < 300; ++round) {
    const Case c = case_of_long_skips(random);
    const int layers = c.ends.back();
    const Footprints table(layers_of(c), 1);
    for (int first = 0; first < layers; ++first) {
      for (int end = first + 1; end <= layers; ++end) {
        SCOPED_TRACE(format("round %d, layers %d ... %d of %d", round, first, end, layers));
        std::vector<int> ends{end};
        if (first > 0) ends.insert(ends.begin(), first);
        if (end < layers) ends.push_back(layers);
        const StageFootprint expected =
            stage_footprint(c.profile, c.costs, ends, StageId{first > 0 ? 1 : 0}, 1);
        const StageFootprint alone = table.alone(first, end);
        EXPECT_EQ(alone.working, expected.working);
        EXPECT_EQ(alone.gradients, expected.gradients);
        EXPECT_EQ(alone.adding, expected.adding);
        EXPECT_GE(table.works_on_at_most(first, end, alone.stash_once),
                  std::max(alone.working, alone.gradients));
      }
    }
  }
}

TEST(ModelCuts, NameTheNextReaders) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    const Case c = case_of_long_skips(random);
    const ModelCuts cuts(c.profile);
    for (std::size_t cut = 0; cut < cuts.crossing.size(); ++cut) {
      ASSERT_EQ(cuts.next_reader[cut].size(), cuts.crossing[cut].size());
      for (std::size_t i = 0; i < cuts.crossing[cut].size(); ++i) {
        const auto& readers = cuts.readers[static_cast<std::size_t>(cuts.crossing[cut][i])];
        EXPECT_EQ(cuts.next_reader[cut][i],
                  *std::lower_bound(readers.begin(), readers.end(), static_cast<int>(cut)));
      }
    }
  }
}

// With a layer more nothing becomes less: what a search cuts off needs it to be so.
TEST(Footprints, GrowWithTheirEnd) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const Case c = random_case(random);
    const Footprints table(layers_of(c), 2);
    const int layers = c.ends.back();
    for (int first = 0; first < layers; ++first) {
      for (int end = first + 1; end < layers; ++end) {
        const StageFootprint one = table.alone(first, end);
        const StageFootprint more = table.alone(first, end + 1);
        EXPECT_GE(more.stash, one.stash);
        EXPECT_GE(more.parameters, one.parameters);
        EXPECT_GE(more.uses, one.uses);
        EXPECT_GE(more.foreign, one.foreign);
        const auto works_on = [](const StageFootprint& footprint) {
          return footprint.stash_once + std::max(footprint.working, footprint.gradients);
        };
        EXPECT_GE(works_on(more), works_on(one));
        EXPECT_GE(more.stash_once + more.adding, one.stash_once + one.adding);
        EXPECT_GE(more.samples_ahead, one.samples_ahead);
      }
    }
  }
}

// What a search asks millions of times is what the ledger says of the same footprint.
TEST(PipelineBound, IsTheLedgersToTheByte) {
  std::mt19937 random(31);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const Case c = random_case(random);
    PipelineShape shape;
    shape.stages = static_cast<int>(c.ends.size());
    shape.in_flight = 1 + static_cast<int>(random() % 6);
    shape.optimizer_slots = static_cast<int>(random() % 3);
    shape.server = random() % 2 == 0;
    shape.clock_distance = static_cast<int>(random() % 3);
    shape.micro_batches = 1 + static_cast<int>(random() % 3);
    shape.halves_pushes = random() % 2 == 0;
    const Footprints table(layers_of(c), shape.micro_batches);
    int first = 0;
    for (std::size_t k = 0; k < c.ends.size(); ++k) {
      const StageId stage{static_cast<int>(k)};
      const StageFootprint whole = table.of(c.ends, stage);
      const PipelineBound bound(shape, stage);
      const std::int64_t bytes = stage_ledger(whole, shape, stage).total();
      const std::int64_t sent = whole.sent / shape.micro_batches;
      const PipelineBound::Tied tied{whole.tied_sent, whole.tied_received};
      EXPECT_EQ(bound.bytes(table, first, c.ends[k], whole.received_once, sent, tied), bytes);
      for (const std::int64_t beside : {-1000, -100, -10, -1, 0, 1, 10, 100, 1000}) {
        EXPECT_EQ(
            bound.fits(table, first, c.ends[k], whole.received_once, sent, tied, bytes + beside),
            beside >= 0);
      }
      first = c.ends[k];
    }
  }
}

// Of a chain of parts the farthest start serves best: without messages and tied weights a stage
// needs no less than the stages inside it.
TEST(PipelineBound, GrowsAtBothEnds) {
  std::mt19937 random(32);
  for (int round = 0; round < 300; ++round) {
    Case c = round % 2 == 0 ? random_case(random) : case_of_long_skips(random);
    for (ProfileLayer& layer : c.profile.layers) layer.shares.clear();
    PipelineShape shape;
    shape.stages = 1 + static_cast<int>(random() % 4);
    shape.in_flight = 1 + static_cast<int>(random() % 6);
    shape.server = random() % 2 == 0;
    shape.micro_batches = 1 + static_cast<int>(random() % 3);
    const PipelineBound bound(shape, StageId{random() % 2 == 0 ? shape.stages - 1 : 0});
    const Footprints table(layers_of(c), shape.micro_batches);
    const int layers = c.ends.back();
    for (int first = 0; first < layers; ++first) {
      for (int end = first + 2; end <= layers; ++end) {
        SCOPED_TRACE(format("round %d, layers %d ... %d of %d", round, first, end, layers));
        const std::int64_t bytes = bound.bytes(table, first, end, 0, 0);
        EXPECT_LE(bound.bytes(table, first + 1, end, 0, 0), bytes);
        EXPECT_LE(bound.bytes(table, first, end - 1, 0, 0), bytes);
      }
    }
  }
}

TEST(RunMaxima, AreThoseOfTheRun) {
  const RunMaxima maxima({3, 1, 4, 1, 5, 9, 2});
  EXPECT_EQ(maxima.of(0, 7), 9);
  EXPECT_EQ(maxima.of(0, 2), 3);
  EXPECT_EQ(maxima.of(3, 4), 1);
  EXPECT_EQ(maxima.of(1, 5), 5);
}

}  // namespace footprints_test
}  // namespace hetpipe
