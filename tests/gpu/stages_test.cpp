// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "kernels/buffer.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/orthogonal.h"
#include "runtime/pipeline/stage.h"
#include "tests/gpu/cuda_test.h"
#include "tests/unit/kernels/wrapped_device.h"

// What a stage on the CUDA device computes in one go, and that it comes to what layers one by one
// come to, in no more memory.
namespace hetpipe {
namespace stages_test {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

// The groups of more than one layer.
std::vector<std::string> fused(const Model& model, Precision precision) {
  const auto device = test::cuda_device(precision);
  std::vector<std::string> chains;
  for (const LayerGroup& group : make_groups(model, 0, model.layer_count(), 4, 1, *device)) {
    if (group.end == group.first + 1) continue;
    std::string& chain = chains.emplace_back();
    for (int l = group.first; l < group.end; ++l) {
      chain += (chain.empty() ? "" : " ") + model.layer(l).name;
    }
  }
  return chains;
}

TEST(CudaStages, FuseNormsSumsAndActivations) {
  EXPECT_THAT(fused(make_model("resnet-8", {8, 8, 3}, 10), Precision::fp32),
              ElementsAre("stem.bn stem.relu", "stage0.block0.bn1 stage0.block0.relu1",
                          "stage0.block0.bn2 stage0.block0.add stage0.block0.relu2",
                          "stage1.block0.bn1 stage1.block0.relu1",
                          "stage1.block0.shortcut.bn stage1.block0.add stage1.block0.relu2",
                          "stage2.block0.bn1 stage2.block0.relu1",
                          "stage2.block0.shortcut.bn stage2.block0.add stage2.block0.relu2"));
  EXPECT_THAT(fused(make_model("lenet", {8, 8, 1}, 10), Precision::fp32),
              ElementsAre("conv1 relu1", "conv2 relu2"));
}

// GELU where activations are of two bytes alone.
TEST(CudaStages, FuseWhatFollowsLinearLayers) {
  const Model model = make_model("gpt2", {8}, 11);
  const std::vector<std::string> half = fused(model, Precision::fp16);
  EXPECT_THAT(half, Contains("h0.mlp.fc h0.mlp.gelu"));
  EXPECT_THAT(half, Contains("h0.attn.drop h0.attn.add"));
  EXPECT_THAT(half, Contains("h11.mlp.drop h11.mlp.add"));
  const std::vector<std::string> whole = fused(model, Precision::fp32);
  EXPECT_THAT(whole, Not(Contains("h0.mlp.fc h0.mlp.gelu")));
  EXPECT_THAT(whole, Contains("h0.attn.drop h0.attn.add"));
}

// Muon's steps of an upright, a wide and a square matrix, near those of the reference device; in two
// bytes within what these round.
TEST(CudaStages, MakeChangesOrthogonal) {
  const auto reference = make_device("reference", 1);
  const auto changes = [](Device& device, std::int64_t rows, std::int64_t columns) {
    const auto stream = device.make_stream();
    std::vector<float> d(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < d.size(); ++i) {
      d[i] = static_cast<float>(random_uniform(random_key({7, 1}), i) - 0.5);
    }
    const std::size_t bytes = d.size() * sizeof(float);
    Buffer buffer(device, *stream, bytes, MemoryKind::gradients);
    device.copy(*stream, buffer.data(), reinterpret_cast<const std::byte*>(d.data()), bytes);
    Orthogonalizer of(device, *stream, rows, columns);
    of.apply(buffer.as<float>(), 1);
    device.copy(*stream, reinterpret_cast<std::byte*>(d.data()), buffer.data(), bytes);
    stream->synchronize();
    return d;
  };
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    const auto device = test::cuda_device(precision);
    if (device == nullptr) continue;
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{24, 40}, {40, 24}, {32, 32}}) {
      const auto expected = changes(*reference, rows, columns);
      const auto found = changes(*device, rows, columns);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], precision == Precision::fp32 ? 1e-3 : 0.06)
            << to_string(precision) << ", " << rows << " rows, " << i;
      }
    }
  }
}

constexpr int kBatch = 6;

struct Outcome {
  std::vector<float> losses, gradients;
  std::size_t peak = 0;  // bytes of the device's memory
};

class OneStage {
 public:
  OneStage(Device& device, const Model& model)
      : device_(device),
        model_(model),
        stream_(device.make_stream()),
        stage_(model, {model.layer_count()}, StageId{0}, 3, device, *stream_) {}

  Outcome train(bool apart) {
    std::vector<float> images(static_cast<std::size_t>(model_.batch_shape(kBatch).elements()));
    for (std::size_t e = 0; e < images.size(); ++e) images[e] = random_normal(9, e);
    std::vector<std::int32_t> labels;
    for (int i = 0; i < kBatch; ++i) labels.push_back(i % model_.classes());
    Pass pass;
    pass.samples = kBatch;
    for (int i = 0; i < kBatch; ++i) pass.keys.push_back({0, i});
    pass.images = upload(images);
    pass.labels = upload(labels);
    const Buffer weights = initial(stage_.parameters());
    const Buffer statistics = initial(stage_.statistics());
    const Buffer gradients = initial(stage_.parameters());
    stage_.forward(pass, weights.as<float>(), statistics.as<float>(), Mode::train);
    Outcome outcome;
    outcome.losses = read(pass.outputs.back());
    stage_.drop_what_backward_does_not_need(pass);
    if (apart) {
      stage_.backward(pass, weights.as<float>(), nullptr, BackwardPart::inputs);
      stage_.weight_gradient(pass, weights.as<float>(), gradients.as<float>(),
                             Gradients::overwrite);
    } else {
      stage_.backward(pass, weights.as<float>(), gradients.as<float>());
    }
    outcome.gradients = read(gradients);
    outcome.peak = device_.memory().peak();
    return outcome;
  }

 private:
  template <class T>
  Buffer upload(const std::vector<T>& values) {
    Buffer buffer(device_, *stream_, values.size() * sizeof(T), MemoryKind::workspace);
    device_.copy(*stream_, buffer.data(), std::as_bytes(std::span(values)).data(), buffer.bytes());
    stream_->synchronize();
    return buffer;
  }
  Buffer initial(const ParameterLayout& layout) {
    std::vector<float> values(static_cast<std::size_t>(layout.count()));
    fill_initial(layout, 3, values);
    return upload(values);
  }
  std::vector<float> read(const Buffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), buffer.data(),
                 buffer.bytes());
    stream_->synchronize();
    return values;
  }

  Device& device_;
  const Model& model_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
};

void expect_near(const std::vector<float>& got, const std::vector<float>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  float largest = 0;
  for (const float x : wanted) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], 1e-5f * largest) << "number " << i;
  }
}

// A convolution's output is there until its gradient is made, where that of a ReLU by itself would
// be gone: one more, of LeNet's second.
TEST(CudaStages, ComeToWhatLayersOneByOneComeTo) {
  for (const std::string name : {"resnet-8", "lenet", "lenet-bn"}) {
    for (const bool apart : {false, true}) {
      SCOPED_TRACE(name + (apart ? ", backward in two halves" : ""));
      const Model model = make_model(name, {8, 8, 3}, 10);
      const auto fusing = test::cuda_device(Precision::fp32);
      test::WrappedDevice plain(test::cuda_device(Precision::fp32));
      const Outcome got = OneStage(*fusing, model).train(apart);
      const Outcome wanted = OneStage(plain, model).train(apart);
      expect_near(got.losses, wanted.losses);
      expect_near(got.gradients, wanted.gradients);
      const std::size_t more = name == "lenet" ? kBatch * 4 * 4 * 32 * sizeof(float) : 0;
      EXPECT_LE(got.peak, wanted.peak + more);
    }
  }
}

}  // namespace stages_test
}  // namespace hetpipe
