// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <string>
#include <string_view>

#include "tests/end-to-end/device_cases.h"

// On the offload device, whose memory the host cannot touch and whose work is done later, a
// training comes to the bits of the CPU device: everybody waits for what is being computed, and
// messages are staged or take the path that ranks of one machine share.
namespace hetpipe {
namespace offload_test {

class Offload : public testing::TestWithParam<DeviceCase> {};

TEST_P(Offload, ComesToTheBitsOfTheCpuDevice) {
  Training training = GetParam().training;
  training.device = "cpu";
  const Bench cpu(training);
  const Trained expected = cpu.train();
  training.device = "offload";
  for (const auto& [path, run_ahead] : {std::pair("staged", 2), {"ipc", 1}, {"staged", 5}}) {
    SCOPED_TRACE(testing::Message() << path << ", " << run_ahead << " pieces of work");
    training.transport_path = path;
    training.run_ahead = run_ahead;
    const Bench offload(training);
    const Trained trained = offload.train();
    expect_same(trained, expected, cpu.model());
    // Every pair took it: a path that fails its trial would be replaced by staging.
    const std::string other = std::string_view(path) == "ipc" ? " staged " : " ipc ";
    EXPECT_EQ(trained.said.find(other), std::string::npos) << trained.said;
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, Offload, testing::ValuesIn(device_cases()), name_of_case);

// Activations of two bytes learn as those of four do. Batch norms over a few samples make much of a
// rounding, so rates are low and losses are compared by their mean.
class Halves : public testing::TestWithParam<DeviceCase> {};

std::vector<double> losses_of(Training training, std::optional<Precision> precision) {
  training.precision = precision;
  std::vector<double> losses;
  for (const MetricPoint& point : Bench(training).train().metric("loss")) {
    losses.push_back(point.value);
  }
  return losses;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST_P(Halves, LearnWhatWholesLearn) {
  Training training = GetParam().training;
  training.device = "offload";
  training.epochs = 2;
  training.optimizer.rate *= 0.1f;
  const std::vector<double> whole = losses_of(training, Precision::fp32);
  const auto expect_near = [&](Precision precision, double share) {
    SCOPED_TRACE(to_string(precision));
    const std::vector<double> half = losses_of(training, precision);
    ASSERT_EQ(half.size(), whole.size());
    EXPECT_NE(half, whole);  // it did round
    EXPECT_NEAR(mean_of(half), mean_of(whole), share * mean_of(whole));
  };
  expect_near(Precision::bf16, 0.04);
  expect_near(Precision::fp16, 0.02);
}

std::vector<DeviceCase> cases_of_halves() {
  const std::set<std::string> some{"servers", "replicas", "tokens", "split-backward",
                                   "two-versions"};
  std::vector<DeviceCase> cases = device_cases();
  std::erase_if(cases, [&](const DeviceCase& c) { return !some.contains(c.name); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Systems, Halves, testing::ValuesIn(cases_of_halves()), name_of_case);

// With one sample a minibatch and so many classes, the first scale makes a gradient of all but 2^16
// at the label, which fp16 rounds to infinity: updates are left out until the scale has fallen, or
// the weights would not be numbers any more.
TEST(LossScaling, LeavesOutUpdatesThatOverflow) {
  for (const char* const system : {"gpipe", "pipedream"}) {
    SCOPED_TRACE(system);
    const Training training{.model = "mlp",
                            .sample = {4, 4, 1},
                            .classes = 16384,
                            .samples = 24,
                            .device = "offload",
                            .workers = {{.minibatch = 1, .stage_ends = {3}}},
                            .system = system,
                            .in_flight = 2,
                            .optimizer = {.rate = 0.002f},
                            .epochs = 1};
    const std::vector<double> whole = losses_of(training, Precision::fp32);
    const std::vector<double> half = losses_of(training, Precision::fp16);
    ASSERT_EQ(half.size(), whole.size());
    EXPECT_NEAR(mean_of(half), mean_of(whole), 0.05 * mean_of(whole));
  }
}

}  // namespace offload_test
}  // namespace hetpipe
