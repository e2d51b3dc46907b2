// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/trial_step.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "runtime/model/zoo.h"
#include "tests/unit/kernels/wrapped_device.h"

namespace hetpipe {
namespace trial_step_test {

class CountingDevice final : public test::WrappedDevice {
 public:
  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    ++made;
    return WrappedDevice::make_kernel(spec, inputs, key);
  }
  int made = 0;
};

// Two stages of a network with norms, cut where two tensors travel.
struct Stages {
  explicit Stages(const std::string& name, const Shape& sample, int cut)
      : model(make_model(name, sample, 5)),
        stream(device.make_stream()),
        first(model, {cut, model.layer_count()}, StageId{0}, 3, device, *stream),
        last(model, {cut, model.layer_count()}, StageId{1}, 3, device, *stream) {}

  Buffer numbers(std::int64_t count, std::uint64_t key) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(random_uniform(random_key({key}), i));
    }
    Buffer buffer(device, *stream, values.size() * sizeof(float), MemoryKind::weights);
    device.copy(*stream, buffer.data(), std::as_bytes(std::span(values)).data(), buffer.bytes());
    return buffer;
  }
  static std::vector<float> read(const Buffer& buffer) {
    const auto* const values = buffer.as<float>();
    return {values, values + buffer.bytes() / sizeof(float)};
  }

  CountingDevice device;
  Model model;
  std::unique_ptr<Stream> stream;
  Stage first, last;
};

class TrialStep : public testing::TestWithParam<bool> {};

// The chunks of one rank, weights and slots with numbers in them.
TEST_P(TrialStep, LeavesNoTraceAndNothingToBeMade) {
  Stages s("resnet-8", {8, 8, 3}, 5);
  const std::vector<Stage*> chunks{&s.first, &s.last};
  const Buffer weights = s.numbers(s.first.parameters().count() + s.last.parameters().count(), 11);
  const std::vector<float> before = Stages::read(weights);
  Optimizer optimizer({.name = "sgd-momentum"}, s.device, *s.stream,
                      static_cast<std::int64_t>(before.size()));
  optimizer.load_slot(0, Stages::read(s.numbers(static_cast<std::int64_t>(before.size()), 12)));
  const std::vector<float> velocity = Stages::read(optimizer.slots()[0]);
  const std::size_t memory = s.device.memory().used();

  enqueue_trial_step(chunks, {.train = {{4, 3}, {4}}, .evaluate = {{2}, {2, 1}}},
                     weights.as<float>(), optimizer, GetParam());
  EXPECT_EQ(Stages::read(weights), before);
  EXPECT_EQ(Stages::read(optimizer.slots()[0]), velocity);
  EXPECT_EQ(s.device.memory().used(), memory);

  const int made = s.device.made;
  EXPECT_GT(made, 0);
  for (const std::int64_t samples : {4, 3, 2}) s.first.groups(samples);
  for (const std::int64_t samples : {4, 2, 1}) s.last.groups(samples);
  EXPECT_EQ(s.device.made, made);
  s.last.groups(5);
  EXPECT_GT(s.device.made, made);
}

// Draws and tokens.
TEST_P(TrialStep, OfTokens) {
  Stages s("gnmt-tiny", {3}, 2);
  Optimizer optimizer({.name = "adam"}, s.device, *s.stream, s.last.parameters().count());
  const Buffer weights = s.numbers(s.last.parameters().count(), 13);
  const std::vector<float> before = Stages::read(weights);
  enqueue_trial_step({&s.last}, {.train = {{2}}, .evaluate = {{3}}}, weights.as<float>(), optimizer,
                     GetParam());
  EXPECT_EQ(Stages::read(weights), before);
}

INSTANTIATE_TEST_SUITE_P(Backwards, TrialStep, testing::Bool(),
                         [](const auto& of) { return of.param ? "InHalves" : "Whole"; });

}  // namespace trial_step_test
}  // namespace hetpipe
