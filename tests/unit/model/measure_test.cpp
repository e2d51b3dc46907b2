// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>

#include "base/error.h"
#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/profiled_layers.h"
#include "tests/unit/kernels/fusing_device.h"
#include "tests/unit/kernels/wrapped_device.h"

namespace hetpipe {
namespace model_measure_test {

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

TEST(MeasureProfile, SaysWhoseWeightsAreShared) {
  const Model model = make_model("gpt2-tiny", {8}, 11);
  const auto device = make_device("cpu", 1);
  const Profile profile = measure_profile(model, *device, {2}, quick());
  std::int64_t bytes = 0;
  for (const ProfileLayer& layer : profile.layers) {
    EXPECT_EQ(layer.shares, layer.name == "head" ? "wte" : "");
    if (layer.shares.empty()) bytes += layer.parameter_bytes;
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
    ASSERT_THAT(m.damped_update, SizeIs(layers));
    ASSERT_THAT(m.orthogonal_update, SizeIs(layers));
    for (std::size_t i = 0; i < layers; ++i) {
      const bool matrices = !profile.layers[i].matrices.empty();
      EXPECT_EQ(m.damped_update[i] > m.update[i], matrices) << profile.layers[i].name;
      EXPECT_EQ(m.orthogonal_update[i] > m.update[i], matrices) << profile.layers[i].name;
    }
    EXPECT_EQ(profile.layers[0].matrices, (std::vector<MatrixSides>{{16, 25}}));
    ASSERT_THAT(m.output_bytes, SizeIs(layers));
    EXPECT_EQ(m.output_bytes[0], 4 * m.batch * 12 * 12 * 16);
    for (std::size_t i = 0; i < layers; ++i) {
      const LayerShapes shapes = model.shapes(static_cast<int>(i), m.batch);
      const bool last = i + 1 == layers;
      const bool kept = shapes.backward_needs_output ||
                        (!last && model.shapes(static_cast<int>(i) + 1, 1).backward_needs_input);
      const std::int64_t samples = i == 0 ? 4 * model.batch_shape(m.batch).elements() : 0;
      EXPECT_EQ(m.stash_bytes[i], samples + (kept ? m.output_bytes[i] : 0) + shapes.stash_bytes);
    }
  }
}

TEST(UnmeasuredProfile, SaysOfLayersWhatAMeasurementSays) {
  for (const auto& [name, sample] : {std::pair("lenet-bn", Shape{12, 12, 1}), {"gpt2-tiny", {8}}}) {
    SCOPED_TRACE(name);
    const Model model = make_model(name, sample, 10);
    const auto device = make_device("reference", 1);
    const Profile measured = measure_profile(model, *device, {2}, quick());
    Profile profile = unmeasured_profile(model);
    EXPECT_EQ(parse_profile(to_toml(profile), "p.toml"), profile);
    ASSERT_EQ(profile.layers.size(), measured.layers.size());
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      ProfileLayer& layer = profile.layers[l];
      EXPECT_EQ(2 * layer.output_bytes, measured.measurements[0].output_bytes[l]) << layer.name;
      // A batch norm keeps its statistics once, however many samples there are.
      const double statistics =
          layer.name.starts_with("bn") ? static_cast<double>(layer.parameter_bytes) : 0;
      EXPECT_EQ(2 * layer.stash_bytes - statistics, measured.measurements[0].stash_bytes[l])
          << layer.name;
      layer.output_bytes = layer.stash_bytes = 0;
      EXPECT_EQ(layer, measured.layers[l]) << layer.name;
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

// A clock on which nothing but the work of one kind of layer takes time.
constexpr std::int64_t kMs = 1'000'000;

class SlowKernel final : public LayerKernel {
 public:
  SlowKernel(std::unique_ptr<LayerKernel> kernel, std::int64_t& now_ns)
      : kernel_(std::move(kernel)), now_ns_(now_ns) {}
  void forward(Stream& stream, const ForwardArguments& arguments) override {
    now_ns_ += 4 * kMs;
    kernel_->forward(stream, arguments);
  }
  void backward(Stream& stream, const BackwardArguments& arguments) override {
    now_ns_ += 8 * kMs;
    kernel_->backward(stream, arguments);
  }

 private:
  std::unique_ptr<LayerKernel> kernel_;
  std::int64_t& now_ns_;
};

// The reference device, with slow flattens.
class SlowDevice final : public test::WrappedDevice {
 public:
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    auto kernel = WrappedDevice::make_kernel(spec, inputs, key);
    if (!std::holds_alternative<Flatten>(spec)) return kernel;
    return std::make_unique<SlowKernel>(std::move(kernel), now_ns_);
  }
  std::function<std::int64_t()> clock() {
    return [this] { return now_ns_; };
  }

 private:
  std::int64_t now_ns_ = 0;
};

// Takes memory of its own, in a backward less than in a forward.
class HungryKernel final : public LayerKernel {
 public:
  HungryKernel(std::unique_ptr<LayerKernel> kernel, Device& device)
      : kernel_(std::move(kernel)), device_(device) {}
  void forward(Stream& stream, const ForwardArguments& arguments) override {
    const Buffer scratch(device_, stream, 8192, MemoryKind::workspace);
    kernel_->forward(stream, arguments);
  }
  void backward(Stream& stream, const BackwardArguments& arguments) override {
    const Buffer scratch(device_, stream, 4096, MemoryKind::workspace);
    kernel_->backward(stream, arguments);
  }

 private:
  std::unique_ptr<LayerKernel> kernel_;
  Device& device_;
};

class HungryDevice final : public test::WrappedDevice {
 public:
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    auto kernel = WrappedDevice::make_kernel(spec, inputs, key);
    if (!std::holds_alternative<Flatten>(spec)) return kernel;
    return std::make_unique<HungryKernel>(std::move(kernel), *this);
  }
};

TEST(MeasureProfile, WhatKernelsTakeForThemselvesInABackward) {
  const Model model = make_model("lenet", {12, 12, 1}, 10);
  HungryDevice device;
  const Profile profile = measure_profile(model, device, {2}, quick());
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const std::int64_t wanted = profile.layers[l].name == "flatten" ? 4096 : 0;
    EXPECT_EQ(profile.measurements[0].scratch_bytes[l], wanted) << profile.layers[l].name;
  }
}

TEST(MeasureProfile, TimesBelongToTheirLayersAndSumToAPass) {
  const Model model = make_model("mlp", {2, 2, 1}, 3);
  SlowDevice device;
  std::vector<PassCheck> checks;
  MeasureOptions options = quick();
  options.repetitions = 7;
  options.device = "laptop";
  options.on_batch = [&](const PassCheck& check) { checks.push_back(check); };
  options.clock = device.clock();
  const Profile profile = measure_profile(model, device, {1, 2}, options);
  ASSERT_THAT(checks, SizeIs(2));
  for (std::size_t b = 0; b < 2; ++b) {
    const Measurement& m = profile.measurements[b];
    EXPECT_EQ(m.device, "laptop");
    EXPECT_DOUBLE_EQ(m.forward[0], 0.004);
    EXPECT_DOUBLE_EQ(m.backward[0], 0.008);
    for (std::size_t i = 1; i < m.forward.size(); ++i) {
      EXPECT_EQ(m.forward[i] + m.backward[i], 0) << profile.layers[i].name;
    }
    EXPECT_EQ(total(m.update), 0);
    EXPECT_EQ(checks[b].batch, m.batch);
    EXPECT_EQ(checks[b].passes, 7);
    EXPECT_NEAR(checks[b].layers_seconds, total(m.forward) + total(m.backward), 1e-9);
    EXPECT_DOUBLE_EQ(checks[b].pass_seconds, 0.012);
  }
}

// A group's time is reported as the shares of its layers, and bytes as if there were no groups: a
// stage may begin in the middle.
TEST(MeasureProfile, SharesTheTimeOfWhatIsComputedInOneGo) {
  const Model model = make_model("lenet-bn", {6, 6, 1}, 4);
  const auto measured = [&](Device& device) {
    return measure_profile(model, device, {2}, quick()).measurements[0];
  };
  test::WrappedDevice plain;
  test::FusingDevice fusing([](std::span<const ChainedLayer> chain) {
    return chain.size() == 2 && std::holds_alternative<BatchNorm>(chain[0].spec);
  });
  const Measurement one_by_one = measured(plain), grouped = measured(fusing);
  ASSERT_GT(fusing.fused(), 0);
  EXPECT_EQ(grouped.output_bytes, one_by_one.output_bytes);
  EXPECT_EQ(grouped.stash_bytes, one_by_one.stash_bytes);
  int groups = 0;
  for (int l = 1; l < model.layer_count(); ++l) {
    if (!std::holds_alternative<Relu>(model.layer(l).spec)) continue;
    ++groups;
    const auto relu = static_cast<std::size_t>(l), norm = relu - 1;
    EXPECT_GT(grouped.forward[norm], 0);
    EXPECT_DOUBLE_EQ(grouped.forward[relu], grouped.forward[norm] / 7);
    EXPECT_DOUBLE_EQ(grouped.backward[relu], grouped.backward[norm] / 11);
  }
  EXPECT_EQ(groups, 3);
}

TEST(MeasureProfile, MeasuresUntilItsTimeIsSpent) {
  const Model model = make_model("mlp", {2, 2, 1}, 3);
  SlowDevice device;
  int passes = 0;
  MeasureOptions options;
  options.repetitions = 2;
  options.seconds_per_layer = 0.015;  // of seven layers; a pass, timed and not, takes 24 ms
  options.on_batch = [&](const PassCheck& check) { passes = check.passes; };
  options.clock = device.clock();
  measure_profile(model, device, {1}, options);
  EXPECT_EQ(passes, 5);
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

}  // namespace model_measure_test
}  // namespace hetpipe
