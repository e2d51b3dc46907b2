// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "runtime/sync/outer_step.h"
#include "tests/end-to-end/training.h"

// Rounds of waves and a step of the servers after each (sync = "outer") reach the serial program's
// weights, bit for bit.
namespace hetpipe {
namespace outer_test {

Training small(std::vector<Training::Worker> workers, int in_flight, int round, int distance) {
  Training training{.model = "mlp",
                    .workers = std::move(workers),
                    .sync = "outer",
                    .in_flight = in_flight,
                    .distance = distance,
                    .scale = "mean",
                    .epochs = 2,
                    .round = round};
  training.optimizer.rate = 0.02f;
  return training;
}

// Last rounds are partial: before their gate, and behind it.
TEST(Outer, RoundsOfEveryLengthAndDistance) {
  for (const int in_flight : {1, 3}) {
    for (const int round : {1, 2, 5}) {
      for (const int distance : {0, 1, 2}) {
        SCOPED_TRACE(format("Nm = %d, H = %d, D = %d", in_flight, round, distance));
        expect_trains_like_serial(small({{8, {3, 5}}, {8, {3}}}, in_flight, round, distance));
      }
    }
  }
}

TEST(Outer, UnequalVirtualWorkersAndTwoShards) {
  Training training = small({{5, {4}}, {9, {}}, {12, {4, 9}}}, 2, 3, 1);
  training.model = "lenet-bn";
  training.servers = 2;
  expect_trains_like_serial(training);
  training.hosted = true;
  training.push_precision = "bf16";
  expect_trains_like_serial(training);
}

TEST(Outer, ByAdamOfEachVirtualWorker) {
  Training training = small({{8, {3}}, {8, {5}}}, 2, 4, 1);
  training.optimizer.name = "adamw";
  training.optimizer.rate = 0.002f;
  training.optimizer.weight_decay = 0.1f;
  expect_trains_like_serial(training);
}

// Schedules and weights of other systems.
TEST(Outer, UnderOtherSystems) {
  struct Of {
    const char* system;
    int in_flight, micro_batches;
  };
  for (const Of of : {Of{"gpipe", 1, 2},
                      {"spectrain", 3, 1},
                      {"xpipe", 2, 2},
                      {"ssp", 2, 1},
                      {"timeprest", 3, 2}}) {
    SCOPED_TRACE(of.system);
    Training training = small({{8, {3, 5}}, {8, {3}}}, of.in_flight, 3, 1);
    if (of.system == std::string("ssp")) training.workers = {{8}, {8}};
    training.system = of.system;
    training.micro_batches = of.micro_batches;
    expect_trains_like_serial_system(training);
  }
}

TEST(Outer, ContinuesAsIfItHadNeverStopped) {
  for (const int distance : {0, 1, 2}) {
    SCOPED_TRACE(format("D = %d", distance));
    expect_continues_exactly(Bench(small({{8, {3, 5}}, {6, {3}}}, 2, 3, distance)), {1, 2});
  }
}

// With empty pipelines, and the momentum of the servers.
TEST(Outer, ResumesFromACheckpoint) {
  const Bench bench(small({{8, {3, 5}}, {6, {3}}}, 2, 3, 1));
  const Trained whole = bench.train();
  const From from{whole.checkpoints.at(2)};
  expect_same(bench.train(from), bench.serial(from), bench.model());
}

// The servers' and the serial program's, by hand.
TEST(Outer, StepIsNesterovs) {
  SerialOuter serial{.rate = 0.5f, .momentum = 0.5f};
  const OuterStep servers{.rate = 0.5f, .momentum = 0.5f};
  std::vector<float> momentum{0};
  std::vector<float> before{1};
  // Summed weights 2 higher, velocity 2; then 1 lower, velocity 0.5 * 2 - 1 = 0.
  for (const auto& [change, expected] : {std::pair(2.0f, 2 + 0.5f * 2), {-1.0f, -1 + 0.5f * 0}}) {
    std::vector<float> one{before[0] + change}, other = one;
    serial.step(before, one);
    step_towards(servers, before, other, momentum);
    EXPECT_EQ(one[0], before[0] + 0.5f * expected);
    EXPECT_EQ(other, one);
    before = one;
  }
}

}  // namespace outer_test
}  // namespace hetpipe
