// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/model/zoo_text.h"

namespace hetpipe {
namespace zoo_test {

using testing::HasSubstr;

const Shape kFashion{28, 28, 1};
const Shape kCifar{32, 32, 3};

// A sample that the model takes.
Shape sample_for(const std::string& name) {
  if (name.starts_with("inception")) return {75, 75, 3};
  return name.starts_with("vgg") || name == "amoebanet" ? kCifar : kFashion;
}

int number_of(const Model& model, const std::string& layer) {
  for (int i = 0; i < model.layer_count(); ++i) {
    if (model.layer(i).name == layer) return i;
  }
  ADD_FAILURE() << "no layer " << layer;
  return 0;
}

// Convolutions without bias, batch norms with two numbers per channel; stage s has 16*2^s channels.
std::int64_t resnet_parameters(int blocks, int image_channels, int classes) {
  std::int64_t count = image_channels * 16 * 9 + 2 * 16;
  for (std::int64_t channels : {16, 32, 64}) {
    const std::int64_t before = channels == 16 ? 16 : channels / 2;
    count += (before + channels) * channels * 9 + 2 * 2 * channels;            // first block
    count += (blocks - 1) * (2 * channels * channels * 9 + 2 * 2 * channels);  // the others
    if (before != channels) count += before * channels + 2 * channels;         // projection
  }
  return count + 64 * classes + classes;
}

TEST(Zoo, ParameterCountsByHand) {
  EXPECT_EQ(make_model("mlp", kFashion, 10).parameter_count(),
            784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(make_model("lenet", kFashion, 10).parameter_count(),
            (16 * 25 + 16) + (32 * 16 * 9 + 32) + (7 * 7 * 32 * 128 + 128) + (128 * 10 + 10));
  EXPECT_EQ(
      make_model("lenet-bn", kFashion, 10).parameter_count(),
      (16 * 25 + 2 * 16) + (32 * 16 * 9 + 2 * 32) + (7 * 7 * 32 * 128 + 2 * 128) + (128 * 10 + 10));
  EXPECT_EQ(make_model("resnet-8", kCifar, 10).parameter_count(), resnet_parameters(1, 3, 10));
  EXPECT_EQ(make_model("resnet-14", kFashion, 10).parameter_count(), resnet_parameters(2, 1, 10));
  EXPECT_EQ(make_model("resnet-20", kCifar, 100).parameter_count(), resnet_parameters(3, 3, 100));
  // He et al. state 0.27 M for ResNet-20 with parameter-free shortcuts; two projections add 2,752.
  EXPECT_EQ(make_model("resnet-20", kCifar, 10).parameter_count(), 269722 + 2752);
}

TEST(Zoo, EveryModelEndsInItsLossAndCoversItsGraph) {
  for (const std::string& name : model_names()) {
    const std::vector<std::string> text = text_model_names();
    if (std::ranges::find(text, name) != text.end()) continue;  // zoo_text_test.cpp
    const Model model = make_model(name, sample_for(name), 10);
    SCOPED_TRACE(name);
    EXPECT_EQ(model.name(), name);
    EXPECT_NO_THROW(model.check_complete());
    EXPECT_EQ(model.layer(model.layer_count() - 1).name, "loss");
    EXPECT_EQ(model.output_shape(model.layer_count() - 2, 3), (Shape{3, 10}));
  }
}

TEST(Zoo, ResNetShapes) {
  const Model model = make_model("resnet-20", kCifar, 10);
  EXPECT_EQ(model.output_shape(number_of(model, "stage0.block2.relu2"), 2), (Shape{2, 32, 32, 16}));
  EXPECT_EQ(model.output_shape(number_of(model, "stage1.block0.conv1"), 2), (Shape{2, 16, 16, 32}));
  EXPECT_EQ(model.output_shape(number_of(model, "stage1.block0.shortcut.bn"), 2),
            (Shape{2, 16, 16, 32}));
  EXPECT_EQ(model.output_shape(number_of(model, "stage2.block2.relu2"), 2), (Shape{2, 8, 8, 64}));
  EXPECT_EQ(model.output_shape(number_of(model, "pool"), 2), (Shape{2, 64}));
}

// Rows and columns that do not halve evenly still meet at every addition.
TEST(Zoo, ResNetTakesOddSamples) {
  for (std::int64_t size = 8; size <= 19; ++size) {
    EXPECT_NO_THROW(make_model("resnet-8", {size, size + 3, 1}, 10)) << size;
  }
}

TEST(Zoo, WeightLayersGiveTheResNetsTheirNames) {
  for (int depth : {8, 14, 20}) {
    const Model model = make_model("resnet-" + std::to_string(depth), kCifar, 10);
    int layers = 0;
    for (const ModelLayer& layer : model.layers()) {
      const bool weighted = std::holds_alternative<Convolution>(layer.spec) ||
                            std::holds_alternative<Linear>(layer.spec);
      if (weighted && layer.name.find("shortcut") == std::string::npos) ++layers;
    }
    EXPECT_EQ(layers, depth);
  }
}

// Both inputs of an addition with a projection are made after the block's input: a cut inside the
// block is crossed by two tensors.
TEST(Zoo, ProjectionReadsTheBlocksInput) {
  const Model model = make_model("resnet-8", kCifar, 10);
  EXPECT_EQ(model.layer(number_of(model, "stage1.block0.shortcut.conv")).inputs,
            model.layer(number_of(model, "stage1.block0.conv1")).inputs);
  EXPECT_EQ(model.layer(number_of(model, "stage1.block0.add")).inputs,
            (std::vector<int>{number_of(model, "stage1.block0.bn2"),
                              number_of(model, "stage1.block0.shortcut.bn")}));
  EXPECT_EQ(
      model.layer(number_of(model, "stage0.block0.add")).inputs,
      (std::vector<int>{number_of(model, "stage0.block0.bn2"), number_of(model, "stem.relu")}));
}

TEST(Zoo, LeNetIsCheap) {
  EXPECT_LT(make_model("lenet", kFashion, 10).forward_flops(1), 4e6);
  EXPECT_LT(make_model("lenet-bn", kFashion, 10).forward_flops(1), 4e6);
}

std::string refusal(const std::string& name, const Shape& sample) {
  try {
    make_model(name, sample, 10);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Zoo, RefusesSmallSamplesAndUnknownNames) {
  EXPECT_EQ(refusal("lenet", {4, 4, 1}), "accepted");
  EXPECT_THAT(refusal("lenet", {28, 3, 1}), HasSubstr("samples of 28 x 3 are smaller than 4 x 4"));
  EXPECT_EQ(refusal("resnet-8", {8, 8, 3}), "accepted");
  EXPECT_THAT(refusal("resnet-8", {7, 8, 3}), HasSubstr("model 'resnet-8'"));
  EXPECT_THAT(refusal("mlp", {784}), HasSubstr("(H, W, C)"));
  EXPECT_THAT(refusal("resnet-9", kCifar), HasSubstr("did you mean 'resnet-8'"));
  EXPECT_THAT(refusal("transformer", kCifar), HasSubstr("known: mlp, lenet"));
}

}  // namespace zoo_test
}  // namespace hetpipe
