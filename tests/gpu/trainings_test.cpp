// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cuda_loader.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"
#include "tests/end-to-end/device_cases.h"

// Whole trainings on the CUDA device, every rank a thread: in fp32 they come to the weights of the
// reference device within rounding, in other precisions they learn alike.
namespace hetpipe {
namespace trainings_test {

double distance(const std::vector<float>& a, const std::vector<float>& b,
                const ParameterEntry& entry) {
  double worst = 0;
  for (std::int64_t i = entry.offset; i < entry.offset + entry.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    worst = std::max(worst, std::abs(static_cast<double>(a[at]) - static_cast<double>(b[at])));
    if (!std::isfinite(a[at])) return INFINITY;
  }
  return worst;
}

// A training may magnify rounding: normalised over three samples, or at the edge of a ReLU, 1e-7
// become 1e-3 within a few minibatches. How much so is what the CPU device shows, which rounds in
// its own way as well.
void expect_near(const std::vector<float>& got, const std::vector<float>& wanted,
                 const std::vector<float>& cpu, const ParameterLayout& layout,
                 const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size());
  const std::vector<float> zeros(wanted.size());
  for (const ParameterEntry& entry : layout.entries()) {
    const double largest = std::max(distance(wanted, zeros, entry), 0.01);
    EXPECT_LE(distance(got, wanted, entry), 1e-4 * largest + 4 * distance(cpu, wanted, entry))
        << what << " " << entry.name;
  }
}

SerialState last_state(const Trained& trained, const Model& model) {
  return state_of(trained.checkpoints.rbegin()->second, model);
}

Trained trained(Training training, const std::string& device, Precision precision) {
  training.device = device;
  training.precision = precision;
  return Bench(training).train();
}

class CudaTrainings : public testing::TestWithParam<DeviceCase> {};

TEST_P(CudaTrainings, ComeToTheReferencesWeightsInFp32) {
  const Training& training = GetParam().training;
  const Model model = make_model(training.model, training.sample, training.classes);
  const Trained there = trained(training, "cuda", Precision::fp32);
  const Trained here = trained(training, "reference", Precision::fp32);
  const Trained cpu = trained(training, "cpu", Precision::fp32);
  ASSERT_EQ(there.end(), here.end());
  ASSERT_EQ(there.checkpoints.size(), here.checkpoints.size());
  const SerialState got = last_state(there, model), wanted = last_state(here, model),
                    other = last_state(cpu, model);
  expect_near(got.weights, wanted.weights, other.weights,
              ParameterLayout::parameters(model, 0, model.layer_count()), "weights of");
  expect_near(got.statistics, wanted.statistics, other.statistics,
              ParameterLayout::statistics(model, 0, model.layer_count()), "statistics of");
}

TEST_P(CudaTrainings, LearnAlikeInBf16) {
  if (usual_precision(load_cuda().module->gpus().front()) != Precision::bf16) {
    GTEST_SKIP() << "the card has no bf16";
  }
  const Trained there = trained(GetParam().training, "cuda", Precision::bf16);
  const Trained here = trained(GetParam().training, "reference", Precision::fp32);
  const std::vector<MetricPoint> got = there.metric("loss"), wanted = here.metric("loss");
  ASSERT_EQ(got.size(), wanted.size());
  ASSERT_FALSE(got.empty());
  // Normalised over a handful of samples even fp32 goes its own way (see above).
  const Training& training = GetParam().training;
  const bool few = training.workers[0].minibatch / training.micro_batches < 6;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double allowed = few && i > 0 ? 0.5 : 0.05;
    EXPECT_NEAR(got[i].value, wanted[i].value, allowed * (1 + std::abs(wanted[i].value))) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, CudaTrainings, testing::ValuesIn(device_cases()), name_of_case);

}  // namespace trainings_test
}  // namespace hetpipe
