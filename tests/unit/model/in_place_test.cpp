// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/in_place.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace {

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

std::vector<int> in_place(const Model& model, int first) {
  std::vector<int> layers;
  for (int l = first; l < model.layer_count(); ++l) {
    if (forward_in_place(model, l, first)) layers.push_back(l);
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

}  // namespace
}  // namespace hetpipe
