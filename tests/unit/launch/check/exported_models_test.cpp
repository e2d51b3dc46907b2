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
#include "tests/unit/launch/check/any_cut.h"

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
  const Model model = import_model(folder_, {.loss = GetParam().loss});  // draws as well
  const std::unique_ptr<Device> device = make_device("cpu", 1);
  const int n = model.layer_count();
  std::vector<Cut> cuts = cuts_in_two(n, n);
  for (const int stages : {3, 4}) {
    for (const Cut& cut : drawn_cuts(n, stages, 4, 1)) cuts.push_back(cut);
  }
  EXPECT_THAT(train_cuts(model, batch_, *device, 2, cuts).different, testing::IsEmpty());
}

TEST(AnyCut, IsDrawnOnceAndInOrder) {
  EXPECT_EQ(cuts_in_two(5, 99), (std::vector<Cut>{{1}, {2}, {3}, {4}}));
  EXPECT_EQ(cuts_in_two(101, 4), (std::vector<Cut>{{1}, {26}, {51}, {76}}));
  EXPECT_EQ(drawn_cuts(4, 3, 99, 1), (std::vector<Cut>{{1, 2}, {1, 3}, {2, 3}}));
  EXPECT_EQ(drawn_cuts(400, 4, 7, 1), drawn_cuts(400, 4, 7, 1));
  EXPECT_NE(drawn_cuts(400, 4, 7, 1), drawn_cuts(400, 4, 7, 2));
  EXPECT_THAT(drawn_cuts(400, 4, 7, 1), testing::SizeIs(7));
}

const LossChoice kOfTwoHeads{
    .ignore_index = 2, .skips = true, .class_weights = {1, 2, 1, 3}, .auxiliary = {0.4}};
INSTANTIATE_TEST_SUITE_P(Models, ExportedModels,
                         testing::Values(Exported{"cnn"}, Exported{"unet"}, Exported{"gpt2"},
                                         Exported{"llama"}, Exported{"bert"}, Exported{"swin"},
                                         Exported{"tagger"}, Exported{"seq2seq"}, Exported{"net"},
                                         Exported{"parts"}, Exported{"own_loss"},
                                         Exported{"two_heads", kOfTwoHeads, 0.1f}),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace exported_models_test
}  // namespace hetpipe
