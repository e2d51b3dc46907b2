// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/text.h"
#include "kernels/element.h"
#include "tests/end-to-end/training.h"

// push_precision = "bf16": trainings are the serial programs whose pushes are rounded, bit for bit,
// and what a rank says that it has pushed is half.
namespace hetpipe {
namespace bf16_pushes_test {

Training small(int in_flight, int distance) {
  Training training{.model = "lenet-bn",
                    .samples = 150,
                    .workers = {{8, {4, 9}}, {6, {7}}},
                    .in_flight = in_flight,
                    .distance = distance,
                    .servers = 2};
  training.push_precision = "bf16";
  return training;
}

TEST(NearestBf16, RoundsTiesToEven) {
  EXPECT_EQ(nearest_bf16(1.0f), 1.0f);
  EXPECT_EQ(nearest_bf16(257.0f), 256.0f);  // between 256 and 258
  EXPECT_EQ(nearest_bf16(259.0f), 260.0f);
  EXPECT_EQ(nearest_bf16(-257.5f), -258.0f);
  EXPECT_EQ(nearest_bf16(1e-40f), std::ldexp(1.0f, -133));  // the smallest one; of 1.09
  EXPECT_TRUE(std::signbit(nearest_bf16(-0.0f)));
  EXPECT_EQ(nearest_bf16(std::numeric_limits<float>::max()),
            std::numeric_limits<float>::infinity());
}

// The rounding of every device is that of the definition: all halves, what lies just beside them
// and between them.
TEST(NearestBf16, IsWhatDevicesConvertTo) {
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(upper << 16 | lower);
      if (std::isnan(value)) continue;
      const auto rounded = static_cast<float>(Bf16(value));
      ASSERT_EQ(std::bit_cast<std::uint32_t>(nearest_bf16(value)),
                std::bit_cast<std::uint32_t>(rounded))
          << value;
    }
  }
}

class Bf16Pushes : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_like_serial(Training training) {
    training.device = GetParam();
    expect_trains_like_serial(training);
  }
};

TEST_P(Bf16Pushes, EveryDistance) {
  for (const int distance : {0, 1, 3}) {
    for (const int in_flight : {1, 3}) {
      SCOPED_TRACE(format("Nm = %d, D = %d", in_flight, distance));
      expect_like_serial(small(in_flight, distance));
    }
  }
}

TEST_P(Bf16Pushes, ServersWhereverTheyAre) {
  for (const int servers : {1, 2}) {
    for (const bool hosted : {false, true}) {
      for (const std::string placement : {"default", "local"}) {
        SCOPED_TRACE(format("%d servers, ", servers) + placement + (hosted ? ", hosted" : ""));
        Training training = small(2, 1);
        training.servers = servers;
        training.hosted = hosted;
        training.placement = placement;
        expect_like_serial(training);
      }
    }
  }
}

// A worker that ends inside of a wave, pushes that are weighed, clipped, of replicas.
TEST_P(Bf16Pushes, OfEveryKind) {
  Training training = small(3, 1);
  training.workers = {{5, {4}}, {9, {}}, {12, {4, 9}}};
  training.scale = "root";
  expect_like_serial(training);
  training = small(2, 0);
  training.optimizer.clips = SerialOptimizer::Clips::wave;
  training.optimizer.clip_norm = 0.05f;
  expect_like_serial(training);
  training = small(2, 1);
  training.optimizer = {.name = "adam", .rate = 0.003f};
  expect_like_serial(training);
}

TEST_P(Bf16Pushes, UnderTheLabelsThatTimeGives) {
  Training training = small(2, 2);
  training.device = GetParam();
  training.pull = "newest";
  const Bench bench(training);
  const Trained trained = bench.train();
  const auto labels = trained.labels();
  expect_same(trained,
              bench.serial(std::nullopt,
                           [&](int worker, Wave wave) {
                             return labels.at({worker, (wave + 1) * 2 - 1});
                           }),
              bench.model());
}

// Weights that show own updates at once, predicted ones, replicated stages.
TEST_P(Bf16Pushes, OfOtherSystems) {
  for (const std::string weights : {"newest", "predicted"}) {
    SCOPED_TRACE(weights);
    Training training = small(3, 1);
    training.model = "lenet";
    training.device = GetParam();
    training.weights = weights;
    training.workers = {{8, {4, 9}}, {6, {7}, {{4, 2}}}};
    const Bench bench(training);
    ASSERT_EQ(bench.why_not_played(), std::nullopt);
    expect_same(bench.train(), bench.serial_system(), bench.model());
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Bf16Pushes, ::testing::Values("reference", "offload"),
                         [](const auto& param) { return param.param; });

TEST(Bf16PushesOfRanks, AreHalfAsManyBytesAndOtherWeights) {
  Training training = small(2, 1);
  const Bench halved(training);
  training.push_precision = "fp32";
  const Bench whole(training);
  const Trained of_halved = halved.train(), of_whole = whole.train();
  const auto by_place = [](const Trained& trained) {
    std::map<std::pair<int, int>, RankReport> ranks;
    for (const RankReport& rank : trained.outcome.ranks) {
      ranks[{rank.virtual_worker, rank.stage}] = rank;
    }
    return ranks;
  };
  const auto ranks = by_place(of_halved), others = by_place(of_whole);
  ASSERT_EQ(ranks.size(), 5u);
  ASSERT_EQ(others.size(), ranks.size());
  for (const auto& [place, rank] : ranks) {
    EXPECT_GT(rank.bytes_pushed, 0);
    EXPECT_EQ(2 * rank.bytes_pushed, others.at(place).bytes_pushed);
    EXPECT_EQ(rank.bytes_pulled, others.at(place).bytes_pulled);
    EXPECT_EQ(rank.pushes, others.at(place).pushes);
  }
  EXPECT_FALSE(of_halved.checkpoints.at(1).parameters == of_whole.checkpoints.at(1).parameters);
}

TEST(Bf16PushesOfRanks, ContinueBitForBit) {
  const std::pair<int, std::string> cases[]{{0, "reference"}, {1, "offload"}, {3, "reference"}};
  for (const auto& [distance, device] : cases) {
    SCOPED_TRACE(format("D = %d, ", distance) + device);
    Training training = small(3, distance);
    training.device = device;
    training.epochs = 1.5;
    const Bench bench(training);
    const Trained whole = bench.train();
    for (const Label label : {1, 3}) {
      ASSERT_LT(label, whole.end());
      expect_part_of(bench.train(From{whole.checkpoints.at(label), true}), whole, label + 1,
                     whole.end());
    }
  }
}

TEST(Bf16PushesOfRanks, StopOnRequestAndContinue) {
  Training training = small(2, 1);
  training.epochs = 2;
  const Bench bench(training);
  const Trained whole = bench.train();
  std::atomic<int> asked = 0;
  const Trained first = bench.train(std::nullopt, [&]() -> std::optional<int> {
    return ++asked > 40 ? std::optional(SIGUSR1) : std::nullopt;
  });
  if (first.code == ExitCode::done) return;  // it was too late to stop
  ASSERT_EQ(first.code, ExitCode::stopped);
  expect_part_of(first, whole, 1, first.end());
  expect_part_of(bench.train(From{first.checkpoints.at(first.end()), true}), whole, first.end() + 1,
                 whole.end());
}

// Resumed as by another plan: with empty pipelines from the label.
TEST(Bf16PushesOfRanks, ResumeFromALabel) {
  const Bench bench(small(3, 1));
  const Trained whole = bench.train();
  const From from{whole.checkpoints.at(2)};
  expect_same(bench.train(from), bench.serial(from), bench.model());
}

}  // namespace bf16_pushes_test
}  // namespace hetpipe
