// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/layer_groups.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/kernels/fusing_device.h"

namespace hetpipe {
namespace layer_groups_test {

//   0 conv  1 bn  2 relu  3 conv  4 bn  5 add(4, 2)  6 relu  7 dropout  8 flatten  9 linear  10
//   loss
Model block() {
  Model model("block", {8, 8, 3}, 4);
  model.add("conv1", Convolution{.output_channels = 4, .padding = 1});
  model.add("bn1", BatchNorm{});
  model.add("relu1", Relu{});
  model.add("conv2", Convolution{.output_channels = 4, .padding = 1});
  model.add("bn2", BatchNorm{});
  model.add("add", Add{}, {4, 2});
  model.add("relu2", Relu{});
  model.add("dropout", Dropout{});
  model.add("flatten", Flatten{});
  model.add("linear", Linear{4});
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

// The layers that write over their first input on a device that fuses nothing.
std::vector<int> in_place(const Model& model, int first) {
  test::WrappedDevice device;
  std::vector<int> layers;
  for (const LayerGroup& group : make_groups(model, first, model.layer_count(), 1, 0, device)) {
    EXPECT_EQ(group.end, group.first + 1);
    if (group.in_place) layers.push_back(group.first);
  }
  return layers;
}

// Not: the dropout behind the ReLU, whose backward reads what it would write over.
TEST(InPlace, WhereNobodyElseReadsTheInput) {
  EXPECT_EQ(in_place(block(), 0), (std::vector<int>{2, 5, 6}));
}

TEST(InPlace, NotOverWhatCameFromTheStageBefore) {
  EXPECT_EQ(in_place(block(), 2), (std::vector<int>{5, 6}));
  EXPECT_EQ(in_place(block(), 5), (std::vector<int>{6}));
  EXPECT_EQ(in_place(block(), 6), (std::vector<int>{}));
}

TEST(InPlace, NotOverASecondReadersInput) {
  Model model("twice", {5}, 2);
  model.add("linear1", Linear{3});
  model.add("relu", Relu{});
  model.add("add", Add{}, {0, 1});
  model.add("linear2", Linear{2});
  model.add("loss", SoftmaxCrossEntropy{});
  EXPECT_EQ(in_place(model, 0), (std::vector<int>{}));
}

TEST(InPlace, NotOverTheSamples) {
  Model model("bare", {5}, 2);
  model.add("relu", Relu{});
  model.add("linear", Linear{2});
  model.add("loss", SoftmaxCrossEntropy{});
  EXPECT_EQ(in_place(model, 0), (std::vector<int>{}));
}

// "0 1-2 3-6": groups by layers.
std::string drawn(const std::vector<LayerGroup>& groups) {
  std::string text;
  for (const LayerGroup& group : groups) {
    text += (text.empty() ? "" : " ") + std::to_string(group.first);
    if (group.last() > group.first) text += "-" + std::to_string(group.last());
  }
  return text;
}

std::string grouped(const Model& model, int first, int end, test::FusingDevice::Fuses fuses) {
  test::FusingDevice device(std::move(fuses));
  return drawn(make_groups(model, first, end, 2, 0, device));
}

// Layer 2 has two readers, so a chain ends there; the border of the stage ends one as well.
TEST(LayerGroups, AreTheLongestChainsThatTheDeviceTakes) {
  const Model model = block();
  EXPECT_EQ(grouped(model, 0, 11, test::every_chain), "0-2 3-10");
  EXPECT_EQ(grouped(model, 1, 5, test::every_chain), "1-2 3-4");
  EXPECT_EQ(grouped(model, 2, 3, test::every_chain), "2");
  const auto ends_with_relu = [](std::span<const ChainedLayer> chain) {
    return std::holds_alternative<Relu>(chain.back().spec) &&
           std::holds_alternative<BatchNorm>(chain.front().spec);
  };
  EXPECT_EQ(grouped(model, 0, 11, ends_with_relu), "0 1-2 3 4-6 7 8 9 10");
  EXPECT_EQ(grouped(model, 0, 6, ends_with_relu), "0 1-2 3 4 5");
}

TEST(LayerGroups, NotThroughALayerThatReadsItsInputTwice) {
  Model model("doubled", {5}, 2);
  model.add("linear1", Linear{3});
  model.add("add", Add{}, {0, 0});
  model.add("linear2", Linear{2});
  model.add("loss", SoftmaxCrossEntropy{});
  EXPECT_EQ(grouped(model, 0, 4, test::every_chain), "0 1-3");
}

TEST(LayerGroups, SayWhatTheyTakeFromOutside) {
  const Model model = block();
  test::FusingDevice device([](std::span<const ChainedLayer> chain) {
    return std::holds_alternative<Add>(chain.back().spec) &&
           std::holds_alternative<BatchNorm>(chain.front().spec);
  });
  const std::vector<LayerGroup> groups = make_groups(model, 0, 11, 2, 0, device);
  ASSERT_EQ(drawn(groups), "0 1 2 3 4-5 6 7 8 9 10");
  const LayerGroup& group = groups[4];
  EXPECT_EQ(group.inputs, (std::vector<int>{3, 2}));
  // The batch norm's backward reads its input, the addition's nothing.
  EXPECT_EQ(group.read_in_backward, (std::vector<bool>{true, false}));
  EXPECT_EQ(group.shapes.output, model.output_shape(5, 2));
  EXPECT_EQ(group.shapes.parameters.size(), 2u);
  EXPECT_EQ(group.shapes.statistics.size(), 2u);
  // It could write over the other input of the addition, but the convolution reads that too.
  EXPECT_EQ(group.shapes.in_place_input, 1u);
  EXPECT_FALSE(group.in_place.has_value());
}

// Both branches are read by the addition alone: the group writes over the one that it does not
// make.
TEST(LayerGroups, WriteOverAnInputThatNobodyElseReads) {
  Model model("branches", {4, 4, 2}, 2);
  const int x = model.add("conv1", Convolution{.output_channels = 3, .padding = 1});
  const int a = model.add("conv2", Convolution{.output_channels = 3, .padding = 1}, {x});
  model.add("conv3", Convolution{.output_channels = 3, .padding = 1}, {x});
  const int b = model.add("bn", BatchNorm{});
  model.add("add", Add{}, {a, b});
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{2});
  model.add("loss", SoftmaxCrossEntropy{});
  test::FusingDevice device([](std::span<const ChainedLayer> chain) {
    return std::holds_alternative<Add>(chain.back().spec);
  });
  const std::vector<LayerGroup> groups = make_groups(model, 0, 8, 2, 0, device);
  ASSERT_EQ(drawn(groups), "0 1 2-4 5 6 7");
  EXPECT_EQ(groups[2].inputs, (std::vector<int>{x, a}));
  EXPECT_EQ(groups[2].in_place, std::optional<std::size_t>(1));
}

}  // namespace layer_groups_test
}  // namespace hetpipe
