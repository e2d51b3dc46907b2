// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/model/parameters.h"
#include "runtime/model/vision/vision.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace zoo_vision_test {

using testing::HasSubstr;

const Shape kImageNet{224, 224, 3};
const Shape kInception{299, 299, 3};
const Shape kCifar{32, 32, 3};

int number_of(const Model& model, const std::string& layer) {
  for (int i = 0; i < model.layer_count(); ++i) {
    if (model.layer(i).name == layer) return i;
  }
  ADD_FAILURE() << "no layer " << layer;
  return 0;
}

Shape shape_of(const Model& model, const std::string& layer) {
  return model.output_shape(number_of(model, layer), 1);
}

// torchvision 0.29 (Inception-v3: less its auxiliary head) and, for Inception-v4, timm 1.0.
TEST(VisionZoo, ParameterCountsAreThePublishedOnes) {
  const auto count = [](const char* name, const Shape& sample) {
    return make_model(name, sample, 1000).parameter_count();
  };
  EXPECT_EQ(count("vgg-16", kImageNet), 138'357'544);
  EXPECT_EQ(count("vgg-19", kImageNet), 143'667'240);
  EXPECT_EQ(count("resnet-18", kImageNet), 11'689'512);
  EXPECT_EQ(count("resnet-50", kImageNet), 25'557'032);
  EXPECT_EQ(count("resnet-101", kImageNet), 44'549'160);
  EXPECT_EQ(count("resnet-152", kImageNet), 60'192'808);
  EXPECT_EQ(count("inception-v3", kInception), 23'834'568);
  EXPECT_EQ(count("inception-v4", kInception), 42'679'816);
}

// Multiply-adds as the papers count them: 15.5 G of VGG-16, 3.8 G of ResNet-50 with the stride on
// its first 1x1 convolution and 4.1 G with it on the 3x3 one, 5.7 G of Inception-v3, 12.3 G of
// Inception-v4.
TEST(VisionZoo, WorkIsThePublishedOne) {
  const auto giga_multiply_adds = [](const char* name, const Shape& sample) {
    const Model model = make_model(name, sample, 1000);
    double flops = 0;
    for (int i = 0; i < model.layer_count(); ++i) {
      const LayerSpec& spec = model.layer(i).spec;
      if (std::holds_alternative<Convolution>(spec) || std::holds_alternative<Linear>(spec)) {
        flops += model.shapes(i, 1).forward_flops;
      }
    }
    return flops / 2e9;
  };
  EXPECT_NEAR(giga_multiply_adds("vgg-16", kImageNet), 15.5, 0.05);
  EXPECT_NEAR(giga_multiply_adds("resnet-50", kImageNet), 4.1, 0.05);
  EXPECT_NEAR(giga_multiply_adds("inception-v3", kInception), 5.7, 0.05);
  EXPECT_NEAR(giga_multiply_adds("inception-v4", kInception), 12.3, 0.05);
}

TEST(VisionZoo, SizesAreThoseOfThePapers) {
  const Model vgg = make_model("vgg-19", kImageNet, 1000);
  EXPECT_EQ(shape_of(vgg, "features.36"), (Shape{1, 7, 7, 512}));
  const Model resnet = make_model("resnet-152", kImageNet, 1000);
  EXPECT_EQ(shape_of(resnet, "maxpool"), (Shape{1, 56, 56, 64}));
  EXPECT_EQ(shape_of(resnet, "layer1.2.relu"), (Shape{1, 56, 56, 256}));
  EXPECT_EQ(shape_of(resnet, "layer2.7.relu"), (Shape{1, 28, 28, 512}));
  EXPECT_EQ(shape_of(resnet, "layer3.35.relu"), (Shape{1, 14, 14, 1024}));
  EXPECT_EQ(shape_of(resnet, "layer4.2.relu"), (Shape{1, 7, 7, 2048}));
  const Model v3 = make_model("inception-v3", kInception, 1000);
  EXPECT_EQ(shape_of(v3, "maxpool2"), (Shape{1, 35, 35, 192}));
  EXPECT_EQ(shape_of(v3, "Mixed_5d.concat"), (Shape{1, 35, 35, 288}));
  EXPECT_EQ(shape_of(v3, "Mixed_6e.concat"), (Shape{1, 17, 17, 768}));
  EXPECT_EQ(shape_of(v3, "Mixed_7c.concat"), (Shape{1, 8, 8, 2048}));
  const Model v4 = make_model("inception-v4", kInception, 1000);
  EXPECT_EQ(shape_of(v4, "stem.d.concat"), (Shape{1, 35, 35, 384}));
  EXPECT_EQ(shape_of(v4, "b6.concat"), (Shape{1, 17, 17, 1024}));
  EXPECT_EQ(shape_of(v4, "c2.concat"), (Shape{1, 8, 8, 1536}));
  const Model amoebanet = make_model("amoebanet", kImageNet, 1000);
  EXPECT_EQ(shape_of(amoebanet, "stem.bn"), (Shape{1, 112, 112, 52}));
  EXPECT_EQ(shape_of(amoebanet, "reduction1.concat"), (Shape{1, 28, 28, 3 * 208}));
  EXPECT_EQ(shape_of(amoebanet, "normal17.concat"), (Shape{1, 7, 7, 4 * 832}));
}

std::int64_t amoebanet_parameters(int cells, int filters) {
  Model model("amoebanet", kImageNet, 1000);
  build_amoebanet(model, cells, filters);
  return model.parameter_count();
}

// torchgpipe's counts for GPipe's table 1, which says 82, 318, 542 and 1053 millions.
TEST(VisionZoo, AmoebaNetHasTheSizesOfGPipe) {
  EXPECT_EQ(make_model("amoebanet", kImageNet, 1000).parameter_count(), 81'505'540);
  EXPECT_EQ(amoebanet_parameters(18, 416), 319'024'120);
  EXPECT_EQ(amoebanet_parameters(18, 544), 542'734'840);
  EXPECT_EQ(amoebanet_parameters(36, 544), 1'055'832'376);
}

TEST(VisionZoo, SmallSamples) {
  // VGG's first hidden layer takes the 512 channels of the one pixel that is left.
  EXPECT_EQ(make_model("vgg-16", kImageNet, 1000).parameter_count() -
                make_model("vgg-16", kCifar, 1000).parameter_count(),
            (7 * 7 - 1) * 512 * 4096);
  EXPECT_EQ(make_model("resnet-18", {28, 28, 1}, 10).parameter_count(),
            11'689'512 - 2 * 64 * 49 - 990 * 513);
  const Model snn = make_model("snn-mlp", {28, 28, 1}, 10);
  EXPECT_EQ(snn.parameter_count(), 785 * 256 + 7 * 257 * 256 + 257 * 10);
  EXPECT_EQ(snn.shapes(1, 1).parameters[0].initial, Initial::normal);
  EXPECT_FLOAT_EQ(snn.shapes(1, 1).parameters[0].bound, 1 / 28.0f);
  EXPECT_FLOAT_EQ(snn.shapes(4, 1).parameters[0].bound, 1 / 16.0f);
}

// 200,704 draws: their mean wanders by 0.002 deviations, their variance by 0.003 of itself.
TEST(VisionZoo, SelfNormalizingWeightsAreNormal) {
  const Model model = make_model("snn-mlp", {28, 28, 1}, 10);
  const auto layout = ParameterLayout::parameters(model, 0, 2);
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, 3, values);
  const std::int64_t count = layout.entries()[0].count;
  double sum = 0, squares = 0, largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double w = static_cast<double>(values[static_cast<std::size_t>(i)]) * 28;
    sum += w;
    squares += w * w;
    largest = std::max(largest, std::abs(w));
  }
  EXPECT_NEAR(sum / static_cast<double>(count), 0, 0.02);
  EXPECT_NEAR(squares / static_cast<double>(count), 1, 0.03);
  EXPECT_GT(largest, 3.5);  // a uniform draw of this variance ends at 1.7
}

std::string refusal(const std::string& name, const Shape& sample) {
  try {
    make_model(name, sample, 10);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

// The smallest size is the smallest: below it a window finds no room, or a stage no second pixel.
TEST(VisionZoo, RefusesSmallerSamplesWithTheSmallestSize) {
  EXPECT_EQ(refusal("vgg-16", {32, 32, 3}), "accepted");
  EXPECT_THAT(refusal("vgg-16", {28, 28, 1}), HasSubstr("28 x 28 are smaller than 32 x 32"));
  for (const std::string name : {"inception-v3", "inception-v4"}) {
    EXPECT_EQ(refusal(name, {75, 75, 3}), "accepted");
    EXPECT_THAT(refusal(name, kCifar), HasSubstr("32 x 32 are smaller than 75 x 75"));
  }
  EXPECT_EQ(refusal("resnet-50", {17, 17, 3}), "accepted");
  EXPECT_THAT(refusal("resnet-50", {16, 17, 3}), HasSubstr("smaller than 17 x 17"));
  EXPECT_EQ(refusal("amoebanet", {64, 96, 3}), "accepted");
  EXPECT_THAT(refusal("amoebanet", {28, 28, 1}), HasSubstr("smaller than 32 x 32"));
  EXPECT_THAT(refusal("amoebanet", {64, 100, 3}), HasSubstr("multiples of 32"));
}

}  // namespace zoo_vision_test
}  // namespace hetpipe
