// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/shard_map.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace shard_map_test {

using What = ShardMap::What;

ParameterLayout layout(const Model& model, What what, int first, int end) {
  return what == What::parameters ? ParameterLayout::parameters(model, first, end)
                                  : ParameterLayout::statistics(model, first, end);
}

// The whole model's floats, numbered, as they lie in a list of layers' flat array.
std::vector<std::int64_t> numbers(const Model& model, What what, const std::vector<int>& layers) {
  const ParameterLayout whole = layout(model, what, 0, model.layer_count());
  std::vector<std::int64_t> found;
  for (const int layer : layers) {
    for (const ParameterEntry& entry : whole.of_layer(layer)) {
      for (std::int64_t e = 0; e < entry.count; ++e) found.push_back(entry.offset + e);
    }
  }
  return found;
}

std::vector<int> random_cut(std::mt19937& random, int layers, int stages) {
  std::vector<int> places(static_cast<std::size_t>(layers - 1));
  std::iota(places.begin(), places.end(), 1);
  std::shuffle(places.begin(), places.end(), random);
  std::vector<int> ends(places.begin(), places.begin() + stages - 1);
  std::sort(ends.begin(), ends.end());
  ends.push_back(layers);
  return ends;
}

// Each float of the model lies in one place on one shard, and the part that a stage exchanges with
// a shard names the same floats, in the same order, at both ends.
void expect_exact(const Model& model, const ShardMap& map, const std::vector<int>& stage_end,
                  What what) {
  const ParameterLayout whole = layout(model, what, 0, model.layer_count());
  std::vector<int> on_shards(static_cast<std::size_t>(whole.count()));
  for (int s = 0; s < map.shards(); ++s) {
    const auto held = numbers(model, what, map.layers(ShardId{s}));
    EXPECT_EQ(map.count(what, ShardId{s}), static_cast<std::int64_t>(held.size()));
    for (const auto number : held) ++on_shards[static_cast<std::size_t>(number)];
  }
  EXPECT_EQ(on_shards, std::vector<int>(on_shards.size(), 1));

  int first = 0;
  for (const int end : stage_end) {
    std::vector<int> layers(static_cast<std::size_t>(end - first));
    std::iota(layers.begin(), layers.end(), first);
    const auto of_stage = numbers(model, what, layers);
    std::vector<int> in_stage(of_stage.size());
    for (int s = 0; s < map.shards(); ++s) {
      const ShardId shard{s};
      const auto held = numbers(model, what, map.layers(shard));
      const FlatRange range = map.on_shard(what, shard, first, end);
      std::vector<std::int64_t> here, there;
      std::int64_t previous_end = -1;
      for (const FlatRange& part : map.in_stage(what, shard, first, end)) {
        EXPECT_GT(part.count, 0);
        EXPECT_GT(part.offset, previous_end) << "adjacent parts are joined, parts ascend";
        previous_end = part.offset + part.count;
        for (std::int64_t e = part.offset; e < previous_end; ++e) {
          here.push_back(of_stage.at(static_cast<std::size_t>(e)));
          ++in_stage[static_cast<std::size_t>(e)];
        }
      }
      for (std::int64_t e = range.offset; e < range.offset + range.count; ++e) {
        there.push_back(held.at(static_cast<std::size_t>(e)));
      }
      EXPECT_EQ(here, there);
    }
    EXPECT_EQ(in_stage, std::vector<int>(in_stage.size(), 1));
    first = end;
  }
}

TEST(ShardMap, EveryFloatLiesOnceOnAShardAndOnceInAStage) {
  std::mt19937 random(7);
  for (const char* name : {"mlp", "lenet", "lenet-bn", "resnet-8"}) {
    const Model model = make_model(name, {8, 8, 1}, 3);
    for (int trial = 0; trial < 12; ++trial) {
      SCOPED_TRACE(std::string(name) + ", trial " + std::to_string(trial));
      const int shards = 1 + trial % 4;
      std::vector<int> shard_of_layer;
      for (int l = 0; l < model.layer_count(); ++l) {
        const bool holds = !model.shapes(l, 1).parameters.empty();
        shard_of_layer.push_back(holds ? static_cast<int>(random() % static_cast<unsigned>(shards))
                                       : -1);
      }
      const ShardMap map(model, shard_of_layer, shards);
      const auto cut = random_cut(random, model.layer_count(), 1 + trial % 5);
      expect_exact(model, map, cut, What::parameters);
      expect_exact(model, map, cut, What::statistics);
    }
  }
}

TEST(ShardMap, JoinsAdjacentLayersOfAStage) {
  Model model("three", {2}, 2);
  model.add("a", Linear{3, false});  // 6 floats
  model.add("relu", Relu{});
  model.add("b", Linear{2, false});  // 6
  model.add("c", Linear{2, false});  // 4
  model.add("loss", SoftmaxCrossEntropy{});
  const ShardMap map(model, {0, -1, 0, 1, -1}, 2);
  const auto parts = map.in_stage(What::parameters, ShardId{0}, 0, 5);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(parts[0].offset, 0);
  EXPECT_EQ(parts[0].count, 12);
  EXPECT_EQ(map.on_shard(What::parameters, ShardId{0}, 2, 5).offset, 6);
  EXPECT_TRUE(map.in_stage(What::parameters, ShardId{1}, 0, 3).empty());
}

TEST(ShardMapDeathTest, ALayerWithParametersLiesSomewhere) {
  const Model model = make_model("mlp", {2, 2, 1}, 3);
  EXPECT_DEATH(
      ShardMap(model, std::vector<int>(static_cast<std::size_t>(model.layer_count()), -1), 1),
      "lies on no shard");
}

}  // namespace shard_map_test
}  // namespace hetpipe
