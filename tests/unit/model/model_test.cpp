// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/error.h"

namespace hetpipe {
namespace model_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// What the reader of a failure sees.
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no UserError";
}

// samples -> conv -> bn -> add -> pool -> linear -> loss
//              \___________/
Model small_residual() {
  Model model("small", {6, 4, 3}, 5);
  model.add("conv", Convolution{.output_channels = 8, .kernel = 3, .padding = 1});
  model.add("bn", BatchNorm{});
  model.add("add", Add{}, {1, 0});
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{5});
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

TEST(Model, ShapesFollowFromTheSample) {
  const Model model = small_residual();
  EXPECT_EQ(model.layer_count(), 6);
  EXPECT_THAT(model.input_shapes(0, 7), ElementsAre(Shape{7, 6, 4, 3}));
  EXPECT_EQ(model.shapes(0, 7).output, (Shape{7, 6, 4, 8}));
  EXPECT_THAT(model.input_shapes(2, 7), ElementsAre(Shape{7, 6, 4, 8}, Shape{7, 6, 4, 8}));
  EXPECT_EQ(model.output_shape(3, 7), (Shape{7, 8}));
  EXPECT_EQ(model.output_shape(4, 2), (Shape{2, 5}));
  EXPECT_EQ(model.output_shape(5, 2), (Shape{2}));
}

TEST(Model, FeatureSamples) {
  Model model("features", {12}, 3);
  model.add("linear", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  EXPECT_EQ(model.batch_shape(4), (Shape{4, 12}));
  EXPECT_EQ(model.parameter_count(), 12 * 3 + 3);
}

TEST(Model, ProducersLeaveTheSamplesOut) {
  EXPECT_THAT(small_residual().producers(),
              ElementsAre(ElementsAre(), ElementsAre(0), ElementsAre(1, 0), ElementsAre(2),
                          ElementsAre(3), ElementsAre(4)));
}

TEST(Model, CountsByHand) {
  const Model model = small_residual();
  EXPECT_EQ(model.parameter_count(), (8 * 3 * 3 * 3 + 8) + 2 * 8 + (8 * 5 + 5));
  // Multiply-adds count two; the convolution has 6*4 places, 8 channels and 27 inputs to each.
  EXPECT_DOUBLE_EQ(model.shapes(0, 1).forward_flops, 2.0 * 6 * 4 * 8 * 27);
  EXPECT_DOUBLE_EQ(model.shapes(4, 1).forward_flops, 2.0 * 8 * 5);
  EXPECT_GT(model.forward_flops(1), 2.0 * 6 * 4 * 8 * 27 + 2.0 * 8 * 5);
  EXPECT_DOUBLE_EQ(model.forward_flops(10), 10 * model.forward_flops(1));
}

// Tokens are fp32, and what another layer makes of them, or beside them, is not.
TEST(Model, TokensThatAreNotOnlyEmbeddedNeedFp32) {
  Model embedded("embedded", {6}, 5);
  embedded.add("words", Embedding{.vocabulary = 9, .features = 4});
  embedded.add("linear", Linear{5});
  EXPECT_EQ(embedded.layer_in_need_of_fp32(), -1);

  Operand half;
  half.strides = {1};
  Model parts("parts", {6}, 5);
  parts.add("tokens", Move{{3}, {{{3}, half, 0, {1}}}});
  EXPECT_EQ(parts.layer_in_need_of_fp32(), -1);
  parts.add("words", Embedding{.vocabulary = 9, .features = 4});
  EXPECT_EQ(parts.layer_in_need_of_fp32(), 1);

  Model masked("masked", {6}, 5);
  masked.add("words", Embedding{.vocabulary = 9, .features = 4});
  masked.add("mask", Move{{3}, {{{3}, half, 0, {1}}}}, {kSamples});
  EXPECT_EQ(masked.layer_in_need_of_fp32(), 1);
}

TEST(Model, FingerprintSeesEveryField) {
  std::set<std::uint64_t> seen;
  const auto fingerprint = [&](const std::string& name, Shape sample, Convolution conv,
                               const std::string& layer, int skip_from, float epsilon) {
    Model model(name, sample, 5);
    model.add(layer, conv);
    model.add("bn", BatchNorm{.epsilon = epsilon});
    model.add("add", Add{}, {1, skip_from});
    seen.insert(model.fingerprint());
  };
  const Convolution plain{.output_channels = 3, .padding = 1};
  fingerprint("a", {4, 4, 3}, plain, "conv", 0, 1e-5f);
  fingerprint("a", {4, 4, 3}, plain, "conv", 0, 1e-5f);
  EXPECT_EQ(seen.size(), 1u);
  fingerprint("b", {4, 4, 3}, plain, "conv", 0, 1e-5f);
  fingerprint("a", {4, 5, 3}, plain, "conv", 0, 1e-5f);
  Convolution other = plain;
  other.bias = false;
  fingerprint("a", {4, 4, 3}, other, "conv", 0, 1e-5f);
  other = {.output_channels = 3, .kernel = 5, .padding = 2};
  fingerprint("a", {4, 4, 3}, other, "conv", 0, 1e-5f);
  fingerprint("a", {4, 4, 3}, plain, "conv1", 0, 1e-5f);
  fingerprint("a", {4, 4, 3}, plain, "conv", kSamples, 1e-5f);
  fingerprint("a", {4, 4, 3}, plain, "conv", 0, 1e-4f);
  EXPECT_EQ(seen.size(), 8u);
}

TEST(Model, ErrorsNameModelAndLayer) {
  const Model start = small_residual();
  const auto adding = [&](const std::string& name, LayerSpec spec, std::vector<int> inputs) {
    return message_of([&] {
      Model model = start;
      model.add(name, spec, inputs);
    });
  };
  EXPECT_THAT(adding("second", Linear{4}, {0}),
              AllOf(HasSubstr("model 'small', layer 'second'"), HasSubstr("(1, 6, 4, 8)")));
  EXPECT_THAT(adding("conv", Relu{}, {0}), HasSubstr("the name is taken"));
  EXPECT_THAT(adding("a/b", Relu{}, {0}), HasSubstr("bad name"));
  EXPECT_THAT(adding("", Relu{}, {0}), HasSubstr("bad name"));
  EXPECT_THAT(adding("late", Relu{}, {6}), HasSubstr("input 6 is not an earlier layer"));
  EXPECT_THAT(adding("early", Relu{}, {-2}), HasSubstr("input -2 is not an earlier layer"));
  EXPECT_THAT(adding("after", Relu{}, {5}), HasSubstr("follows the loss 'loss'"));
  EXPECT_THAT(adding("sum", Add{}, {0}), HasSubstr("model 'small', layer 'sum'"));
  EXPECT_THAT(adding("loss2", SoftmaxCrossEntropy{}, {3}), HasSubstr("8 logits for 5 classes"));
}

TEST(Model, RefusesBadSamplesAndClassesTogether) {
  EXPECT_THAT(message_of([] {
                Model("m", {28, 0}, 1);
              }),
              AllOf(HasSubstr("(28, 0)"), HasSubstr("1 classes")));
  EXPECT_THAT(message_of([] { Model("m", {28, 0, 1}, 10); }), HasSubstr("(28, 0, 1)"));
}

TEST(Model, CompleteMeansLossLastAndNoDeadEnds) {
  EXPECT_NO_THROW(small_residual().check_complete());
  Model headless("headless", {4}, 3);
  headless.add("linear", Linear{3});
  EXPECT_THAT(message_of([&] { headless.check_complete(); }), HasSubstr("no loss at the end"));
  Model loose("loose", {4}, 3);
  loose.add("linear", Linear{3});
  loose.add("aside", Relu{});
  loose.add("loss", SoftmaxCrossEntropy{}, {0});
  EXPECT_THAT(message_of([&] { loose.check_complete(); }),
              HasSubstr("model 'loose', layer 'aside': its output is not used"));
}

TEST(Model, LabelSmoothingIsTheLosss) {
  Model model = small_residual();
  const std::uint64_t before = model.fingerprint();
  EXPECT_EQ(std::get<SoftmaxCrossEntropy>(model.layers().back().spec).smoothing, 0);
  model.set_label_smoothing(0.25f);
  EXPECT_EQ(std::get<SoftmaxCrossEntropy>(model.layers().back().spec).smoothing, 0.25f);
  EXPECT_EQ(model.fingerprint(), before);
}

}  // namespace model_test
}  // namespace hetpipe
