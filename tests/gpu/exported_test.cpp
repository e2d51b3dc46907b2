// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/safetensors.h"
#include "launch/check/steps.h"
#include "runtime/model/graph/import.h"
#include "tests/gpu/cuda_test.h"
#include "tests/main/models_folder.h"

// Networks that PyTorch exported (tests/models), on the CUDA device: in fp32 the loss, the gradient
// of every parameter, and weights and statistics after three steps are PyTorch's; in other
// precisions the losses are.
namespace hetpipe {
namespace exported_test {

struct ExportedCase {
  const char* model;
  Precision precision;
};
void PrintTo(const ExportedCase& c, std::ostream* out) {
  *out << c.model << " in " << to_string(c.precision);
}

class CudaExported : public testing::TestWithParam<ExportedCase> {
 protected:
  void SetUp() override {
    device_ = test::cuda_device(GetParam().precision);
    if (device_ == nullptr) GTEST_SKIP() << test::last_gpu().name << " has no such precision";
  }
  std::filesystem::path folder_ = models_folder() / GetParam().model;
  Model model_ = import_model(folder_, {.dropout = false});
  CheckedBatch batch_ =
      read_batch(folder_ / "check.safetensors", model_, exported_samples(folder_, {}));
  Safetensors reference_{folder_ / "reference.safetensors"};
  std::unique_ptr<Device> device_;

  std::vector<float> expect_losses(CheckedSteps& steps, double tolerance) {
    const std::vector<float> losses = reference_.floats("loss");
    EXPECT_EQ(losses.size(), 3u);
    for (std::size_t s = 0; s < losses.size(); ++s) {
      EXPECT_NEAR(steps.step(batch_, s == 0), losses[s], tolerance * (1 + std::abs(losses[s])))
          << "step " << s;
    }
    return losses;
  }
  // Relative to the largest element; what is zero but for rounding (a bias before a norm) has none.
  void expect_close(const std::vector<CheckedTensor>& tensors, const std::string& kind) {
    for (const CheckedTensor& t : tensors) {
      SCOPED_TRACE(kind + t.name);
      const std::vector<float> wanted = reference_.floats(kind + t.name);
      ASSERT_EQ(t.values.size(), wanted.size());
      double largest = 0;
      for (const float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(t.values[i], wanted[i], 5e-5 * largest + 1e-6) << "element " << i;
      }
    }
  }
  static OptimizerOptions sgd() {
    return {.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9};
  }
};

TEST_P(CudaExported, ComputesWhatPyTorchComputes) {
  CheckedSteps steps(model_, {model_.layer_count()}, *device_, sgd());
  if (GetParam().precision != Precision::fp32) {
    expect_losses(steps, GetParam().precision == Precision::bf16 ? 0.03 : 0.01);
    return;
  }
  expect_losses(steps, 2e-5);
  EXPECT_FALSE(steps.gradients().empty());
  expect_close(steps.gradients(), "gradient/");
  expect_close(steps.parameters(), "updated/");
  expect_close(steps.statistics(), "updated/");
}

// Frames and tokens: tokens are no activations, which may be of two bytes.
constexpr std::string_view kOfTwoInputs = "seq2seq";

TEST(CudaExportedInputs, TokensBesideOthersNeedFourBytes) {
  const Model model = import_model(models_folder() / kOfTwoInputs, {});
  const auto device = test::cuda_device(Precision::fp16);
  if (device == nullptr) GTEST_SKIP() << test::last_gpu().name << " has no such precision";
  EXPECT_THROW(CheckedSteps(model, {model.layer_count()}, *device, {}), UserError);
}

std::vector<ExportedCase> exported_cases() {
  std::vector<ExportedCase> cases;
  for (const char* const model :
       {"cnn", "unet", "gpt2", "llama", "bert", "swin", "tagger", "seq2seq", "net"}) {
    cases.push_back({model, Precision::fp32});
    if (model != kOfTwoInputs) cases.push_back({model, Precision::bf16});
  }
  // One of each family of layers.
  for (const char* const model : {"cnn", "bert", "tagger"}) {
    cases.push_back({model, Precision::tf32});
    cases.push_back({model, Precision::fp16});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Models, CudaExported, testing::ValuesIn(exported_cases()),
                         [](const auto& of) {
                           return std::string(of.param.model) + "_" + to_string(of.param.precision);
                         });

}  // namespace exported_test
}  // namespace hetpipe
