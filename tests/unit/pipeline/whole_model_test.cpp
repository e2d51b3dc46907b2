// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/whole_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"
#include "tests/end-to-end/serial_model.h"

// A trained model against the serial program, and its logits against its losses.
namespace hetpipe {
namespace whole_model_test {

constexpr std::uint64_t kSeed = 11;

Batch batch_of(const Model& model, int count) {
  Batch batch;
  batch.count = count;
  const auto values = static_cast<std::size_t>(model.sample_shape().elements() * count);
  batch.images = Samples(SampleType::floats, values, ordinary_memory);
  const auto vocabulary = static_cast<unsigned>(model.vocabulary());
  for (std::size_t e = 0; e < values; ++e) {
    batch.images.as<float>()[e] =
        vocabulary == 0 ? random_normal(3, e) : static_cast<float>(random_bits(3, e) % vocabulary);
  }
  for (int i = 0; i < count * static_cast<int>(model.labels_per_sample()); ++i) {
    batch.labels.push_back((7 * i + 2) % model.classes());
  }
  for (int i = 0; i < count; ++i) batch.keys.push_back({0, i});
  return batch;
}

// Running statistics that differ from their first values.
std::vector<float> some_statistics(const SerialModel& serial) {
  std::vector<float> values = serial.statistics();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.1f * random_uniform(4, i);
  return values;
}

void expect_as_serial(const Model& model, Device& device) {
  const Batch batch = batch_of(model, 5);
  SerialModel serial(model, device, kSeed);
  const std::vector<float> statistics = some_statistics(serial);
  serial.set_statistics(statistics);
  const auto images = batch.images.as<float>();
  const auto expected =
      serial.forward({images.data(), images.size()}, batch.labels, batch.keys, Mode::evaluate);
  double sum = 0;
  std::int64_t correct = 0;
  for (const float loss : expected.losses) sum += static_cast<double>(loss);
  for (const std::int32_t hits : expected.correct) correct += hits;

  WholeModel whole(model, serial.parameters(), statistics, device);
  const auto result = whole.evaluate(batch, WholeModel::Logits::keep);
  EXPECT_EQ(result.loss_sum, sum);
  EXPECT_EQ(result.correct, correct);
  EXPECT_EQ(result.labels, 5 * model.labels_per_sample());
  EXPECT_EQ(whole.predict(batch), result.logits);
  EXPECT_TRUE(whole.evaluate(batch, WholeModel::Logits::drop).logits.empty());

  // -ln softmax at the labels, by definition: a sample's loss is the mean over its labels.
  const auto classes = static_cast<std::size_t>(whole.classes());
  ASSERT_EQ(result.logits.size(), batch.labels.size() * classes);
  double by_hand = 0;
  std::int64_t hits = 0;
  for (std::size_t r = 0; r < batch.labels.size(); ++r) {
    const float* const row = result.logits.data() + r * classes;
    double exponentials = 0;
    for (std::size_t c = 0; c < classes; ++c) exponentials += std::exp(static_cast<double>(row[c]));
    const auto label = static_cast<std::size_t>(batch.labels[r]);
    by_hand += std::log(exponentials) - static_cast<double>(row[label]);
    hits += std::max_element(row, row + classes) == row + label ? 1 : 0;
  }
  EXPECT_NEAR(result.loss_sum, by_hand / static_cast<double>(model.labels_per_sample()), 1e-5);
  EXPECT_EQ(result.correct, hits);
}

TEST(WholeModel, IsTheSerialProgram) {
  for (const std::string name : {"reference", "cpu", "offload"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Device> device = make_device(name, 1);
    expect_as_serial(make_model("lenet-bn", {8, 8, 2}, 7), *device);
    expect_as_serial(make_model("resnet-8", {8, 8, 3}, 4), *device);
    expect_as_serial(make_model("gpt2-tiny", {6}, 9), *device);
  }
}

// Smoothing is training's alone, and dropout as well.
TEST(WholeModel, EvaluatesWithoutWhatTrainingAdds) {
  const std::unique_ptr<Device> device = make_device("cpu", 1);
  Model model = make_model("lenet", {8, 8, 1}, 5);
  const Batch batch = batch_of(model, 4);
  const SerialModel serial(model, *device, kSeed);
  const double plain = WholeModel(model, serial.parameters(), serial.statistics(), *device)
                           .evaluate(batch, WholeModel::Logits::drop)
                           .loss_sum;
  model.set_label_smoothing(0.3f);
  EXPECT_EQ(WholeModel(model, serial.parameters(), serial.statistics(), *device)
                .evaluate(batch, WholeModel::Logits::drop)
                .loss_sum,
            plain);
}

// Activations of two bytes: logits come as floats.
TEST(WholeModel, InTwoBytes) {
  const Model model = make_model("mlp", {4, 4, 1}, 6);
  const std::unique_ptr<Device> exact = make_device("cpu", 1);
  const std::unique_ptr<Device> halves = make_device("offload", 1, {0, Precision::bf16, ""});
  const SerialModel serial(model, *exact, kSeed);
  const Batch batch = batch_of(model, 3);
  const auto logits = [&](Device& device) {
    return WholeModel(model, serial.parameters(), {}, device).predict(batch);
  };
  const std::vector<float> ours = logits(*halves);
  const std::vector<float> theirs = logits(*exact);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 0.05) << i;
  EXPECT_NE(ours, theirs);
}

}  // namespace whole_model_test
}  // namespace hetpipe
