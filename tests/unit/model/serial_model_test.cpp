// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/masked_tokens.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"
#include "tests/unit/model/tiny_inception.h"

namespace hetpipe {
namespace serial_model_test {

// A block with a projection and one without: tensors with two consumers, pooling, dropout.
Model tiny_resnet() {
  Model m("tiny-resnet", {6, 5, 2}, 3);
  m.add("stem.conv", Convolution{.output_channels = 4, .padding = 1});
  m.add("stem.bn", BatchNorm{});
  const int x = m.add("stem.relu", Relu{});
  m.add("conv1", Convolution{.output_channels = 6, .stride = 2, .padding = 1, .bias = false});
  m.add("relu1", Relu{});
  const int y = m.add("bn1", BatchNorm{});
  m.add("shortcut.conv", Convolution{.output_channels = 6, .kernel = 1, .stride = 2}, {x});
  const int z = m.add("add1", Add{}, {y, m.layer_count() - 1});
  const int a = m.add("conv2", Convolution{.output_channels = 6, .padding = 1}, {z});
  m.add("add2", Add{}, {a, z});
  m.add("average", AveragePool{.kernel = 2, .stride = 1});
  m.add("dropout", Dropout{0.3f});
  m.add("pool", GlobalAveragePool{});
  m.add("linear", Linear{3});
  m.add("loss", SoftmaxCrossEntropy{});
  return m;
}

Model tiny_mlp() {
  Model m("tiny-mlp", {4, 3, 2}, 3);
  m.add("flatten", Flatten{});
  m.add("linear1", Linear{7});
  m.add("relu1", Relu{});
  m.add("dropout", Dropout{0.2f});
  m.add("linear2", Linear{3});
  m.add("loss", SoftmaxCrossEntropy{});
  return m;
}

// An embedding whose weight is also the output's, with a bias there.
Model tiny_gpt() {
  Model m("tiny-gpt", {5}, 7);
  const int wte = m.add("wte", Embedding{.vocabulary = 7, .features = 8, .deviation = 0.7f});
  const int x = m.add("wpe", PositionEmbedding{.positions = 6, .deviation = 0.7f});
  m.add("ln1", LayerNorm{});
  m.add("qkv", Linear{24});
  m.add("attention", SelfAttention{2});
  m.add("projection", Linear{8});
  const int y = m.add("add1", Add{}, {m.layer_count() - 1, x});
  m.add("fc", Linear{16});
  m.add("gelu", Gelu{});
  m.add("proj", Linear{8});
  const int z = m.add("add2", Add{}, {m.layer_count() - 1, y});
  m.add("head", Linear{.output_features = 7, .transposed = true}, {z}, wte);
  m.add("loss", SoftmaxCrossEntropy{.smoothing = 0.1f});
  return m;
}

Model tiny_lstm() {
  Model m("tiny-lstm", {6}, 5);
  const int e = m.add("embedding", Embedding{.vocabulary = 5, .features = 4, .deviation = 1});
  const int l = m.add("lstm1", Lstm{4});
  m.add("add", Add{}, {l, e});
  m.add("lstm2", Lstm{6});
  m.add("linear", Linear{5});
  m.add("loss", SoftmaxCrossEntropy{});
  return m;
}

struct Batch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<SampleKey> keys;

  Batch(const Model& model, int samples) {
    const auto elements = static_cast<std::uint64_t>(model.sample_shape().elements()) * samples;
    const int vocabulary = model.vocabulary();
    for (std::uint64_t e = 0; e < elements; ++e) {
      images.push_back(vocabulary == 0
                           ? random_normal(99, e)
                           : std::floor(random_uniform(99, e) * static_cast<float>(vocabulary)));
    }
    for (int i = 0; i < samples; ++i) {
      if (vocabulary == 0) labels.push_back((5 * i + 1) % model.classes());
      keys.push_back({2, 10 + i});
    }
    // A token's label is its own number and that of the token before it, together.
    for (std::size_t e = 0; vocabulary > 0 && e < images.size(); ++e) {
      const bool first = e % static_cast<std::size_t>(model.labels_per_sample()) == 0;
      const float sum = images[e] + (first ? 0.0f : images[e - 1]);
      labels.push_back(static_cast<std::int32_t>(sum) % model.classes());
      const auto token = static_cast<std::int64_t>(e) % model.labels_per_sample();
      if (token >= model.predictions_per_sample()) labels.back() = kNoLabel;
    }
  }
  // Samples [first, end), handed to a forward.
  SerialModel::Result forward(SerialModel& model, Mode mode = Mode::train, std::size_t first = 0,
                              std::size_t end = 0) const {
    if (end == 0) end = keys.size();
    const std::size_t elements = images.size() / keys.size(), n = end - first;
    const std::size_t each = labels.size() / keys.size();
    return model.forward(std::span(images).subspan(first * elements, n * elements),
                         std::span(labels).subspan(first * each, n * each),
                         std::span(keys).subspan(first, n), mode);
  }
};

double norm(std::span<const float> x) {
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * v;
  return std::sqrt(squares);
}

double distance(std::span<const float> x, std::span<const float> y) {
  std::vector<float> difference(x.begin(), x.end());
  for (std::size_t i = 0; i < x.size(); ++i) difference[i] -= y[i];
  return norm(difference);
}

// For every parameter tensor: the slope along several random directions against the gradient's.
void expect_gradient_is_slope(const Model& model) {
  const auto device = make_device("reference", 1);
  SerialModel serial(model, *device, 5);
  const Batch batch(model, 6);
  batch.forward(serial);
  const std::vector<float> gradient = serial.backward();
  const std::vector<float> weights = serial.parameters();
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    for (std::uint64_t trial = 0; trial < 3; ++trial) {
      SCOPED_TRACE(entry.name + " direction " + std::to_string(trial));
      // Small enough to cross few kinks of ReLUs, large enough against rounding.
      const float step = 4e-3f / std::sqrt(static_cast<float>(entry.count));
      std::vector<float> up = weights, down = weights;
      double slope = 0, moved = 0;
      for (std::int64_t e = entry.offset; e < entry.offset + entry.count; ++e) {
        const auto i = static_cast<std::size_t>(e);
        const float d = step * random_normal(trial, i);
        up[i] += d;
        down[i] -= d;
        slope += static_cast<double>(gradient[i]) * (up[i] - down[i]);
        moved += static_cast<double>(up[i] - down[i]) * (up[i] - down[i]);
      }
      serial.set_parameters(up);
      const double above = batch.forward(serial).mean_loss();
      serial.set_parameters(down);
      const double below = batch.forward(serial).mean_loss();
      EXPECT_NEAR((above - below) / std::sqrt(moved), slope / std::sqrt(moved),
                  5e-4 + 3e-3 * std::abs(slope) / std::sqrt(moved));
    }
  }
  EXPECT_GT(norm(gradient), 0.1);
}

TEST(SerialModel, GradientOfAResNetIsTheSlopeOfItsLoss) { expect_gradient_is_slope(tiny_resnet()); }
TEST(SerialModel, GradientOfAnMlpIsTheSlopeOfItsLoss) { expect_gradient_is_slope(tiny_mlp()); }
TEST(SerialModel, GradientOfAnInceptionIsTheSlopeOfItsLoss) {
  expect_gradient_is_slope(tiny_inception());
}
TEST(SerialModel, GradientOfATiedTransformerIsTheSlopeOfItsLoss) {
  expect_gradient_is_slope(tiny_gpt());
}
TEST(SerialModel, GradientOfAnLstmIsTheSlopeOfItsLoss) { expect_gradient_is_slope(tiny_lstm()); }

void expect_devices_agree(const Model& model) {
  SCOPED_TRACE(model.name());
  const auto cpu = make_device("cpu", 1), reference = make_device("reference", 1);
  SerialModel a(model, *cpu, 5), b(model, *reference, 5);
  const Batch batch(model, 6);
  for (Mode mode : {Mode::evaluate, Mode::train}) {
    const auto one = batch.forward(a, mode), two = batch.forward(b, mode);
    for (std::size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(one.losses[i], two.losses[i], 1e-4 * (1 + two.losses[i]));
    }
    EXPECT_EQ(one.correct, two.correct);
  }
  const auto one = a.backward(), two = b.backward();
  EXPECT_LT(distance(one, two), 1e-4 * norm(two));
  EXPECT_LE(distance(a.statistics(), b.statistics()), 1e-5 * norm(b.statistics()));
}

TEST(SerialModel, DevicesAgree) {
  expect_devices_agree(tiny_resnet());
  expect_devices_agree(tiny_mlp());
  expect_devices_agree(tiny_inception());
  expect_devices_agree(make_model("snn-mlp", {6, 6, 1}, 4));
  expect_devices_agree(make_model("lenet", {12, 12, 1}, 4));
  expect_devices_agree(make_model("lenet-bn", {8, 8, 3}, 4));
  expect_devices_agree(make_model("resnet-8", {8, 8, 3}, 4));
  expect_devices_agree(tiny_gpt());
  expect_devices_agree(tiny_lstm());
  for (const char* name : {"gpt2-tiny", "bert-tiny", "gnmt-tiny"}) {
    expect_devices_agree(make_model(name, {7}, 11));
  }
}

// Parts of a minibatch whose loss gradients are of the whole's mean sum to the whole's gradient.
TEST(SerialModel, PartsSumToTheWhole) {
  const Model model = tiny_mlp();
  const auto device = make_device("reference", 1);
  SerialModel serial(model, *device, 5);
  const Batch batch(model, 6);
  batch.forward(serial);
  const auto whole = serial.backward();
  batch.forward(serial, Mode::train, 0, 2);
  auto sum = serial.backward(6);
  batch.forward(serial, Mode::train, 2, 6);
  const auto rest = serial.backward(6);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
  EXPECT_LT(distance(sum, whole), 1e-6 * norm(whole));
  EXPECT_GT(distance(rest, whole), 1e-2 * norm(whole));
}

TEST(SerialModel, EvaluationLeavesStatisticsAlone) {
  const Model model = tiny_resnet();
  const auto device = make_device("reference", 1);
  SerialModel serial(model, *device, 5);
  const Batch batch(model, 4);
  const auto start = serial.statistics();
  const auto before = batch.forward(serial, Mode::evaluate).losses;
  EXPECT_EQ(serial.statistics(), start);
  batch.forward(serial);
  EXPECT_NE(serial.statistics(), start);
  serial.set_statistics(start);
  EXPECT_EQ(batch.forward(serial, Mode::evaluate).losses, before);
}

void expect_learns(SerialModel& serial, const Batch& batch, bool adam, int steps,
                   float rate = 0.02f) {
  std::vector<float> first(serial.parameters().size()), second(first.size());
  const double start = batch.forward(serial).mean_loss();
  for (int step = 1; step <= steps; ++step) {
    batch.forward(serial);
    const auto gradient = serial.backward();
    serial.add_to_parameters(adam ? serial.adam_delta(gradient, first, second, {.rate = rate}, step)
                                  : serial.sgd_delta(gradient, first, {0.05f, 0.9f}));
  }
  // An evaluation's loss is without smoothing and dropout.
  EXPECT_LT(batch.forward(serial, Mode::evaluate).mean_loss(), 0.2 * start);
}

TEST(SerialModel, LearnsAFewSamples) {
  const auto device = make_device("cpu", 1);
  for (const Model& model : {tiny_mlp(), tiny_resnet()}) {
    for (bool adam : {false, true}) {
      SerialModel serial(model, *device, 5);
      expect_learns(serial, Batch(model, 8), adam, 60);
    }
  }
}

TEST(SerialModel, LearnsAFewTexts) {
  const auto device = make_device("cpu", 1);
  for (const Model& model : {tiny_gpt(), tiny_lstm(), make_model("gpt2-tiny", {6}, 7),
                             make_model("bert-tiny", {6}, 7), make_model("gnmt-tiny", {6}, 7)}) {
    SCOPED_TRACE(model.name());
    SerialModel serial(model, *device, 5);
    expect_learns(serial, Batch(model, 8), true, 200, model.layer_count() > 20 ? 0.003f : 0.02f);
  }
}

}  // namespace serial_model_test
}  // namespace hetpipe
