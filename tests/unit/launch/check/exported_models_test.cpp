// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/index.h"
#include "base/safetensors.h"
#include "kernels/devices.h"
#include "launch/check/steps.h"
#include "runtime/model/graph/import.h"

// Exported networks against PyTorch: loss, the gradient of every parameter, and weights and running
// statistics after three steps, as tests/models/models.py wrote them.
namespace hetpipe {
namespace exported_models_test {

namespace fs = std::filesystem;

const fs::path kModels = fs::path(HETPIPE_SOURCE_DIR) / "tests" / "models";

struct Exported {
  const char* name;
  LossChoice loss{};
  float smoothing = 0;
};

class ExportedModels : public testing::TestWithParam<Exported> {
 protected:
  ExportedModels() { model_.set_label_smoothing(GetParam().smoothing); }

  fs::path folder_ = kModels / GetParam().name;
  Model model_ = import_model(folder_, {.loss = GetParam().loss, .dropout = false});
  CheckedBatch batch_ =
      read_batch(folder_ / "check.safetensors", model_, exported_samples(folder_, GetParam().loss));
  Safetensors reference_{folder_ / "reference.safetensors"};

  static OptimizerOptions sgd() {
    return {.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9};
  }

  // Relative to the largest element; what is zero but for rounding (a bias before a norm) has none.
  void expect_close(const CheckedTensor& got, const std::string& name, double tolerance) {
    SCOPED_TRACE(name);
    const TensorInFile* const tensor = reference_.find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(got.shape, tensor->shape);
    const std::vector<float> wanted = reference_.floats(name);
    ASSERT_EQ(got.values.size(), wanted.size());
    double largest = 0;
    for (const float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(got.values[i], wanted[i], tolerance * largest + 5e-7) << "element " << i;
    }
  }
};

TEST_P(ExportedModels, ComputeWhatPyTorchComputes) {
  for (const char* const kind : {"reference", "cpu"}) {
    SCOPED_TRACE(kind);
    const std::unique_ptr<Device> device = make_device(kind, 1);
    CheckedSteps steps(model_, {model_.layer_count()}, *device, sgd());
    const std::vector<float> losses = reference_.floats("loss");
    ASSERT_EQ(losses.size(), 3u);
    std::size_t gradients = 0;
    for (std::size_t s = 0; s < losses.size(); ++s) {
      EXPECT_NEAR(steps.step(batch_, s == 0), losses[s], 1e-5);
      if (s > 0) continue;
      for (const CheckedTensor& t : steps.gradients()) {
        expect_close(t, "gradient/" + t.name, 2e-5);
        ++gradients;
      }
    }
    std::size_t wanted = 0;
    for (const auto& [name, tensor] : reference_.tensors()) wanted += name.starts_with("gradient/");
    EXPECT_EQ(gradients, wanted);
    for (const CheckedTensor& t : steps.parameters()) expect_close(t, "updated/" + t.name, 2e-5);
    for (const CheckedTensor& t : steps.statistics()) expect_close(t, "updated/" + t.name, 2e-5);
  }
}

TEST_P(ExportedModels, AnyCutGivesTheSameBits) {
  const std::unique_ptr<Device> device = make_device("cpu", 1);
  const auto run = [&](std::vector<int> cuts) {
    cuts.push_back(model_.layer_count());
    CheckedSteps steps(model_, std::move(cuts), *device, sgd());
    std::vector<std::vector<float>> all;
    for (int s = 0; s < 2; ++s) all.push_back({static_cast<float>(steps.step(batch_))});
    for (const auto& tensors : {steps.parameters(), steps.statistics()}) {
      for (const CheckedTensor& t : tensors) all.push_back(t.values);
    }
    return all;
  };
  const auto whole = run({});
  const int n = model_.layer_count();
  for (int cut = 1; cut < n; ++cut) ASSERT_EQ(run({cut}), whole) << "cut at " << cut;
  ASSERT_EQ(run({n / 5, n / 2}), whole);
  ASSERT_EQ(run({1, n / 3, n - 2}), whole);
}

const LossChoice kOfTwoHeads{
    .ignore_index = 2, .skips = true, .class_weights = {1, 2, 1, 3}, .auxiliary = {0.4}};
INSTANTIATE_TEST_SUITE_P(Models, ExportedModels,
                         testing::Values(Exported{"cnn"}, Exported{"unet"}, Exported{"gpt2"},
                                         Exported{"llama"}, Exported{"bert"}, Exported{"swin"},
                                         Exported{"tagger"}, Exported{"seq2seq"}, Exported{"net"},
                                         Exported{"own_loss"},
                                         Exported{"two_heads", kOfTwoHeads, 0.1f}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace exported_models_test
}  // namespace hetpipe
