// SPDX-License-Identifier: Apache-2.0
#include "launch/evaluate/evaluation.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <memory>

#include "base/masked_tokens.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "launch/evaluate/report.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"
#include "runtime/training/test_batches.h"

// A data set evaluated in parts, and measures by their definitions.
namespace hetpipe {
namespace evaluation_test {

using ::testing::HasSubstr;
using ::testing::Not;

Dataset images(int size, int classes) {
  Dataset data;
  data.height = data.width = 4;
  data.channels = 1;
  data.classes = classes;
  data.size = size;
  for (std::size_t i = 0; i < static_cast<std::size_t>(16 * size); ++i) {
    data.values.push_back(random_normal(8, i));
  }
  for (int i = 0; i < size; ++i) data.labels.push_back(i * i % classes);
  return data;
}

struct Evaluated {
  Evaluated(const Model& the_model, const Dataset& the_data, std::vector<float> weights = {})
      : model(the_model), data(the_data), device(make_device("reference", 1)) {
    if (weights.empty()) {
      const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
      weights.resize(static_cast<std::size_t>(layout.count()));
      fill_initial(layout, 5, weights);
    }
    weigh_labels(data, model);
    whole = std::make_unique<WholeModel>(model, weights, std::span<const float>(), *device);
  }
  Evaluation on(int ranks, int minibatch) {
    std::vector<EvaluatedPart> parts;
    for (int r = 0; r < ranks; ++r) {
      parts.push_back(evaluate_part(*whole, model, data, minibatch, r, ranks));
    }
    return added_up(parts, model, data);
  }
  Model model;
  Dataset data;
  std::unique_ptr<Device> device;
  std::unique_ptr<WholeModel> whole;
};

TEST(Evaluation, IsTheSameOnAnyNumberOfRanks) {
  Evaluated of(make_model("mlp", {4, 4, 1}, 7), images(23, 7));
  const Evaluation one = of.on(1, 4);
  EXPECT_EQ(one.samples, 23);
  EXPECT_EQ(one.labels, 23);
  EXPECT_EQ(one.measured, Measured::classes);
  EXPECT_EQ(one.counts->correct(), one.correct);
  for (const int ranks : {2, 3, 6, 9}) {
    const Evaluation many = of.on(ranks, 4);
    EXPECT_EQ(many.loss, one.loss) << ranks;
    EXPECT_EQ(many.correct, one.correct);
    EXPECT_EQ(many.counts->numbers(), one.counts->numbers());
  }
  EXPECT_NEAR(of.on(1, 23).loss, one.loss, 1e-6);
}

// A convolution that passes its three channels on: the class of a pixel is its largest one.
//   sample 0: pixels of classes 0 1 / 2 2, labels 0 1 / 1 2
//   sample 1: pixels of classes 0 0 / 1 2, labels 0 1 / 1 none
// Of 7 labels 5 are right. IoU of 0: 2/3, of 1: 2/4, of 2: 1/2.
TEST(Evaluation, Pixels) {
  Model model("pixels", {2, 2, 3}, 3);
  model.add("conv", Convolution{.output_channels = 3, .kernel = 1, .bias = false});
  model.add({.name = "loss",
             .spec = SoftmaxCrossEntropy{.skips = true},
             .inputs = {0},
             .shares = {},
             .views = {Shape{1, 4, 3}}});
  Dataset data;
  data.extents = {2, 2, 3};
  data.classes = 3;
  data.labels_per_sample = 4;
  data.skips = true;
  data.size = 2;
  for (const int c : {0, 1, 2, 2, 0, 0, 1, 2}) {
    for (int channel = 0; channel < 3; ++channel) data.values.push_back(channel == c ? 3 : 1);
  }
  data.labels = {0, 1, 1, 2, 0, 1, 1, kNoLabel};
  const Evaluation found = Evaluated(model, data, {1, 0, 0, 0, 1, 0, 0, 0, 1}).on(1, 2);
  EXPECT_EQ(found.measured, Measured::pixels);
  EXPECT_EQ(found.labels, 7);
  EXPECT_EQ(found.correct, 5);
  EXPECT_NEAR(found.counts->mean_iou().value(), (2.0 / 3 + 0.5 + 0.5) / 3, 1e-12);
  // -ln softmax of (3, 1, 1): of the largest ln(1 + 2 e^-2), of another one 2 more.
  EXPECT_NEAR(found.loss, std::log(1 + 2 * std::exp(-2.0)) + 2.0 * 2 / 7, 1e-6);
  EXPECT_FALSE(found.perplexity);
  const std::string text = evaluation_text(found, {}, true);
  EXPECT_THAT(text, HasSubstr("pixel accuracy       71.43 % (5 of 7)"));
  EXPECT_THAT(text, HasSubstr("mean IoU             55.56 %"));
  EXPECT_THAT(text, HasSubstr("IoU %"));
  EXPECT_NEAR(evaluation_json(found, {}).at("mean_iou").get<double>(), 5.0 / 9, 1e-12);
}

// The flattened sample itself is what is predicted; targets lie where labels do. Sample 0 misses
// each of its two values by 1, sample 1 by 3 and 1: means 1 and 5.
TEST(Evaluation, NumbersHaveALossAlone) {
  Model model("numbers", {1, 1, 2}, 0);
  model.add("flatten", Flatten{});
  model.add("linear", Linear{.output_features = 2, .bias = false});
  model.add("loss", RegressionLoss{});
  Dataset data;
  data.extents = {1, 1, 2};
  data.labels_per_sample = 2;
  data.number_labels = true;
  data.size = 2;
  data.values = {1, 2, 3, 4};
  for (const float target : {2.0f, 1.0f, 0.0f, 5.0f}) {
    data.labels.push_back(std::bit_cast<std::int32_t>(target));
  }
  const Evaluation found = Evaluated(model, data, {1, 0, 0, 1}).on(1, 1);
  EXPECT_EQ(found.measured, Measured::numbers);
  EXPECT_NEAR(found.loss, 3, 1e-6);
  EXPECT_THAT(evaluation_text(found, {}, false), Not(HasSubstr("accuracy")));
  EXPECT_FALSE(evaluation_json(found, {}).contains("accuracy"));
}

// A loss of numbers before one of classes: the accuracy is of the second input and the second part
// of the labels.
TEST(Evaluation, ALossOfSeveralParts) {
  Model model("joint", {1, 1, 2}, 2);
  const int flat = model.add("flatten", Flatten{});
  const int numbers = model.add("numbers", Linear{.output_features = 1, .bias = false}, {flat});
  const int classes = model.add("classes", Linear{.output_features = 2, .bias = false}, {flat});
  JointLoss loss;
  loss.terms = {{RegressionLoss{}, 0.5f, 0}, {SoftmaxCrossEntropy{}, 2.0f, 1}};
  loss.label_sizes = {1, 1};
  model.add("loss", loss, {numbers, classes});
  Dataset data;
  data.extents = {1, 1, 2};
  data.classes = 2;
  data.labels_per_sample = 2;
  data.size = 3;
  data.values = {4, 0, 0, 4, 4, 0};
  const auto number = std::bit_cast<std::int32_t>(1.0f);
  data.labels = {number, 0, number, 1, number, 1};
  // Of numbers the sum of the sample, 4, which misses by 3; of classes the sample.
  const Evaluation found = Evaluated(model, data, {1, 1, 1, 0, 0, 1}).on(2, 1);
  EXPECT_EQ(found.measured, Measured::classes);
  EXPECT_EQ(found.counts->table(), (std::vector<std::int64_t>{1, 0, 1, 1}));
  EXPECT_EQ(found.correct, 2);
  const double right = std::log(1 + std::exp(-4.0));
  EXPECT_NEAR(found.loss, 0.5 * 9 + 2 * (3 * right + 4) / 3, 1e-5);
}

// Weights of zero: every token is as probable as any other, so the perplexity is their number.
TEST(Evaluation, PerplexityOfText) {
  const Model model = make_model("gnmt-tiny", {5}, 8);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  Dataset data;
  data.tokens = data.labels_per_sample = 5;
  data.classes = 8;
  data.size = 3;
  for (int i = 0; i < 15; ++i) {
    data.token_ids.push_back(static_cast<std::uint16_t>(i % 8));
    data.labels.push_back((i + 1) % 8);
  }
  Evaluated of(model, data, std::vector<float>(static_cast<std::size_t>(layout.count())));
  const Evaluation found = of.on(2, 1);
  EXPECT_EQ(found.measured, Measured::tokens);
  EXPECT_NEAR(found.perplexity.value(), 8, 1e-5);
  EXPECT_NEAR(found.bits.value(), 3, 1e-6);
  EXPECT_EQ(found.labels, 15);
  EXPECT_EQ(found.correct, 1);  // label 0 is the first of the largest
  EXPECT_FALSE(found.counts);
  EXPECT_THAT(evaluation_text(found, {.by_the_character = true}, false),
              HasSubstr("bits per character   3.0000"));
  EXPECT_TRUE(evaluation_json(found, {}).contains("bits_per_token"));
}

TEST(Evaluation, TopFiveWhereThereAreMore) {
  for (const int classes : {5, 6}) {
    const Evaluation found =
        Evaluated(make_model("mlp", {4, 4, 1}, classes), images(12, classes)).on(1, 12);
    const std::string text = evaluation_text(found, {}, false);
    EXPECT_THAT(text, HasSubstr("top-1 accuracy"));
    EXPECT_EQ(text.find("top-5") != std::string::npos, classes == 6);
    EXPECT_EQ(evaluation_json(found, {}).contains("top5_accuracy"), classes == 6);
  }
}

TEST(Evaluation, ManyClassesAreListedByTheLowest) {
  Evaluated of(make_model("mlp", {4, 4, 1}, 40), images(80, 40));
  const Evaluation found = of.on(1, 80);
  EXPECT_THAT(evaluation_text(found, {}, false), HasSubstr("The 10 of 40 classes"));
  EXPECT_EQ(evaluation_json(found, {}).at("classes").size(), 40u);
}

TEST(Evaluation, ALossThatIsNoNumberIsSaid) {
  const Model model = make_model("mlp", {4, 4, 1}, 3);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  std::vector<float> weights(static_cast<std::size_t>(layout.count()), NAN);
  Evaluated of(model, images(6, 3), std::move(weights));
  EXPECT_THROW(of.on(1, 2), NumericalError);
}

}  // namespace evaluation_test
}  // namespace hetpipe
