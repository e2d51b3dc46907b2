// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/orthogonal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/devices.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {
namespace orthogonal_test {

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

std::vector<float> orthogonal(const std::string& device_name, std::vector<float> d,
                              std::int64_t rows, std::int64_t columns, float factor) {
  const auto device = make_device(device_name, 1);
  const auto stream = device->make_stream();
  Buffer buffer(*device, *stream, d.size() * sizeof(float), MemoryKind::gradients);
  std::copy(d.begin(), d.end(), buffer.as<float>());
  Orthogonalizer of(*device, *stream, rows, columns);
  of.apply(buffer.as<float>(), factor);
  stream->synchronize();
  return {buffer.as<float>(), buffer.as<float>() + d.size()};
}

double at(const std::vector<float>& d, std::int64_t columns, std::int64_t r, std::int64_t c) {
  return static_cast<double>(d[static_cast<std::size_t>(r * columns + c)]);
}

// Of whatever matrix: along every direction of its smaller side the result is about as long, and it
// still points where the matrix does.
TEST(Orthogonalizer, MakesEveryDirectionAsLong) {
  for (const char* device : {"reference", "cpu"}) {
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{5, 9}, {9, 5}, {6, 6}, {40, 100}, {100, 40}}) {
      SCOPED_TRACE(std::string(device) + ", " + std::to_string(rows));
      const std::vector<float> d = random_numbers(rows * columns, 3);
      const std::vector<float> o = orthogonal(device, d, rows, columns, 2);
      const std::int64_t m = std::min(rows, columns), n = std::max(rows, columns);
      const std::vector<float> way = random_numbers(m, 5);
      double squares = 0, of_way = 0, along = 0;
      for (std::int64_t k = 0; k < n; ++k) {
        double sum = 0;
        for (std::int64_t i = 0; i < m; ++i) {
          const double value = rows > columns ? at(o, columns, k, i) : at(o, columns, i, k);
          sum += static_cast<double>(way[static_cast<std::size_t>(i)]) * value;
        }
        squares += sum * sum;
      }
      for (const float value : way) of_way += static_cast<double>(value * value);
      EXPECT_GT(std::sqrt(squares / of_way), 2 * 0.6);
      EXPECT_LT(std::sqrt(squares / of_way), 2 * 1.3);
      double of_d = 0, of_o = 0;
      for (std::size_t i = 0; i < d.size(); ++i) {
        along += static_cast<double>(d[i] * o[i]);
        of_d += static_cast<double>(d[i] * d[i]);
        of_o += static_cast<double>(o[i] * o[i]);
      }
      EXPECT_GT(along / std::sqrt(of_d * of_o), 0.75);
    }
  }
}

TEST(Orthogonalizer, IsTheSameOnTheCpu) {
  const std::vector<float> d = random_numbers(24 * 70, 7);
  const auto one = orthogonal("reference", d, 24, 70, 1), other = orthogonal("cpu", d, 24, 70, 1);
  for (std::size_t i = 0; i < d.size(); ++i) EXPECT_NEAR(one[i], other[i], 2e-5);
}

TEST(Orthogonalizer, ZerosStayZeros) {
  for (const float value : orthogonal("cpu", std::vector<float>(6), 2, 3, 1)) EXPECT_EQ(value, 0);
}

// Two steps of torch.optim.Muon 2.15 (lr 0.1, weight_decay 0.5, momentum 0.8, nesterov,
// adjust_lr_fn "match_rms_adamw"), whose products are of bf16; its weights after each are the ones
// before plus this.
TEST(Muon, StepsAsPyTorchDoes) {
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  Optimizer optimizer({.name = "muon", .learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.5},
                      *device, *stream, {{.count = 12, .matrix = {.rows = 3, .columns = 4}}});
  std::vector<float> weights{1, -2, 0.5f, 3, 0, 1, -1, 2, 2, 0.5f, 1.5f, -1};
  const std::vector<float> gradient{0.3f, -0.1f, 0.2f, 0.4f, -0.2f, 0.5f,
                                    0.1f, -0.3f, 0.6f, 0.2f, -0.4f, 0.1f};
  const std::vector<std::vector<float>> expected{
      {-0.06922f, 0.09098f, -0.04953f, -0.17656f, 0.00777f, -0.08172f, 0.03180f, -0.09234f,
       -0.12875f, -0.03102f, -0.05484f, 0.04445f},
      {-0.05357f, 0.06576f, -0.02489f, -0.13563f, -0.02695f, -0.03537f, 0.05048f, -0.11866f,
       -0.07802f, -0.03005f, -0.10023f, 0.04370f}};
  for (std::size_t step = 0; step < 2; ++step) {
    Buffer buffer(*device, *stream, 12 * sizeof(float), MemoryKind::gradients);
    for (std::size_t i = 0; i < 12; ++i) {
      buffer.as<float>()[i] = step == 0 ? gradient[i] : -0.5f * gradient[i] + 0.1f;
    }
    const auto p = static_cast<Minibatch>(step);
    optimizer.update(p, p + 1, buffer, weights.data());
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(buffer.as<float>()[i], expected[step][i], 1e-3) << step << ", " << i;
      weights[i] += buffer.as<float>()[i];
    }
  }
}

// What is no matrix goes its own way, as long as Adam's steps.
TEST(Muon, StepsOfAVector) {
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  Optimizer optimizer({.name = "muon", .learning_rate = 0.5, .momentum = 0}, *device, *stream, 4);
  Buffer buffer(*device, *stream, 4 * sizeof(float), MemoryKind::gradients);
  std::fill_n(buffer.as<float>(), 4, 3.0f);
  const std::vector<float> weights(4);
  optimizer.update(0, 1, buffer, weights.data());
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(buffer.as<float>()[i], -0.5f * 0.2f);
}

}  // namespace orthogonal_test
}  // namespace hetpipe
