// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Gt;
using testing::HasSubstr;
using testing::SizeIs;

// Quick: these tests are of structure, not of speed.
MeasureOptions quick() {
  MeasureOptions options;
  options.repetitions = 3;
  options.seconds_per_layer = 0;
  return options;
}

double total(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

TEST(MeasureProfile, DescribesTheModel) {
  const Model model = make_model("resnet-8", {8, 8, 3}, 10);
  const auto device = make_device("cpu", 1);
  const Profile profile = measure_profile(model, *device, {2}, quick());
  EXPECT_EQ(profile.model, "resnet-8");
  ASSERT_THAT(profile.layers, SizeIs(model.layer_count()));
  EXPECT_EQ(profile.layers[0].name, "stem.conv");
  EXPECT_THAT(profile.layers[0].inputs, ElementsAre());
  EXPECT_EQ(profile.layers[0].parameter_bytes, 4 * 3 * 9 * 16);
  EXPECT_DOUBLE_EQ(profile.layers[0].forward_flops, 2.0 * 64 * 16 * 27);
  EXPECT_DOUBLE_EQ(profile.layers[0].input_bytes, 4 * 8 * 8 * 3);
  std::int64_t bytes = 0;
  for (int i = 0; i < model.layer_count(); ++i) {
    const ProfileLayer& layer = profile.layers[static_cast<std::size_t>(i)];
    EXPECT_EQ(layer.inputs, model.producers()[static_cast<std::size_t>(i)]);
    bytes += layer.parameter_bytes;
  }
  EXPECT_EQ(bytes, 4 * model.parameter_count());
}

TEST(MeasureProfile, TimesAndBytesOfEveryLayerAndBatch) {
  const Model model = make_model("lenet-bn", {12, 12, 1}, 10);
  const auto device = make_device("cpu", 1);
  const Profile profile = measure_profile(model, *device, {3, 8}, quick());
  const auto layers = static_cast<std::size_t>(model.layer_count());
  ASSERT_THAT(profile.measurements, SizeIs(2));
  for (std::size_t b = 0; b < 2; ++b) {
    const Measurement& m = profile.measurements[b];
    EXPECT_EQ(m.device, "cpu");
    EXPECT_EQ(m.batch, b == 0 ? 3 : 8);
    EXPECT_THAT(m.forward, AllOf(SizeIs(layers), Each(Gt(0))));
    EXPECT_THAT(m.backward, AllOf(SizeIs(layers), Each(Gt(0))));
    EXPECT_THAT(m.update, SizeIs(layers));
    ASSERT_THAT(m.output_bytes, SizeIs(layers));
    EXPECT_EQ(m.output_bytes[0], 4 * m.batch * 12 * 12 * 16);
    for (std::size_t i = 0; i < layers; ++i) {
      EXPECT_EQ(m.stash_bytes[i],
                m.output_bytes[i] + model.shapes(static_cast<int>(i), m.batch).stash_bytes);
    }
  }
}

TEST(MeasureProfile, EqualLayersGetEqualTimes) {
  Model model("twins", {10, 10, 4}, 3);
  for (int i = 0; i < 3; ++i) {
    model.add("conv" + std::to_string(i), Convolution{.output_channels = 4, .padding = 1});
    model.add("relu" + std::to_string(i), Relu{});
  }
  model.add("pool", GlobalAveragePool{});
  model.add("linear", Linear{3});
  model.add("loss", SoftmaxCrossEntropy{});
  const auto device = make_device("cpu", 1);
  const Measurement m = measure_profile(model, *device, {4}, quick()).measurements[0];
  EXPECT_EQ(m.forward[2], m.forward[4]);
  EXPECT_EQ(m.backward[2], m.backward[4]);
  EXPECT_EQ(m.forward[1], m.forward[3]);
  EXPECT_EQ(m.update[2], m.update[4]);
}

// Loose, since the machine may be busy; on an idle one they agree within a few percent.
TEST(MeasureProfile, LayersSumToAPass) {
  const Model model = make_model("resnet-8", {16, 16, 3}, 10);
  const auto device = make_device("cpu", 1);
  std::vector<PassCheck> checks;
  MeasureOptions options;
  options.device = "laptop";
  options.on_batch = [&](const PassCheck& check) { checks.push_back(check); };
  const Profile profile = measure_profile(model, *device, {4, 8}, options);
  ASSERT_THAT(checks, SizeIs(2));
  for (std::size_t b = 0; b < 2; ++b) {
    const Measurement& m = profile.measurements[b];
    EXPECT_EQ(m.device, "laptop");
    EXPECT_EQ(checks[b].batch, m.batch);
    EXPECT_GE(checks[b].passes, options.repetitions);
    EXPECT_NEAR(checks[b].layers_seconds, total(m.forward) + total(m.backward), 1e-9);
    EXPECT_NEAR(checks[b].layers_seconds / checks[b].pass_seconds, 1, 0.3);
    RecordProperty("layers_over_pass_batch_" + std::to_string(m.batch),
                   std::to_string(checks[b].layers_seconds / checks[b].pass_seconds));
  }
}

TEST(MeasureProfile, RefusesBadBatchesTogether) {
  const Model model = make_model("mlp", {4, 4, 1}, 10);
  const auto device = make_device("reference", 1);
  try {
    measure_profile(model, *device, {4, 0, 4});
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("0 is not positive"), HasSubstr("4 is given twice")));
  }
  EXPECT_THROW(measure_profile(model, *device, {}), UserError);
}

}  // namespace
}  // namespace hetpipe
