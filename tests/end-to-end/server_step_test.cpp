// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/end-to-end/training.h"

// Waves whose gradients the servers' optimizer makes a step of (sync = "server-step") reach the
// serial program's weights and optimizer state, bit for bit.
namespace hetpipe {
namespace server_step_test {

Training small(std::vector<Training::Worker> workers, int in_flight, int distance) {
  Training training{.model = "mlp",
                    .workers = std::move(workers),
                    .sync = "server-step",
                    .in_flight = in_flight,
                    .distance = distance,
                    .scale = "mean",
                    .epochs = 2};
  training.optimizer = {.name = "adam", .rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.95f};
  training.optimizer.damping = 0.95f;
  training.optimizer.damped_directions = 3;
  return training;
}

// Last waves are partial, and not of all virtual workers.
TEST(ServerStep, WavesOfEveryLengthAndDistance) {
  for (const int in_flight : {1, 3}) {
    for (const int distance : {0, 1, 2}) {
      SCOPED_TRACE(format("Nm = %d, D = %d", in_flight, distance));
      expect_trains_like_serial(small({{8, {3, 5}}, {8, {3}}}, in_flight, distance));
    }
  }
}

TEST(ServerStep, UnequalVirtualWorkersAndTwoShards) {
  Training training = small({{5, {4}}, {9, {}}, {12, {4, 9}}}, 2, 1);
  training.model = "lenet-bn";
  training.servers = 2;
  expect_trains_like_serial(training);
  training.hosted = true;
  training.push_precision = "bf16";
  expect_trains_like_serial(training);
}

TEST(ServerStep, ByEveryOptimizer) {
  for (const std::string name : {"sgd", "sgd-momentum", "rmsprop", "adamw", "lamb", "muon"}) {
    SCOPED_TRACE(name);
    Training training = small({{8, {3}}, {8, {5}}}, 2, 0);
    training.optimizer = {
        .name = name, .rate = 0.01f, .weight_decay = 0.1f, .vectors_decay = false};
    expect_trains_like_serial(training);
  }
}

TEST(ServerStep, RatesOfServersAndStagesRise) {
  Training training = small({{8, {3, 5}}, {8, {3}}}, 3, 0);
  training.rate = {.schedule = "constant", .warmup = 1.0};  // 200 samples, 12.5 minibatches
  const auto share = [](Minibatch p) { return std::min(1.0, static_cast<double>(p + 1) / 12.5); };
  training.optimizer.rate_of = [=](Minibatch p) { return double{0.01f} * share(p); };
  training.stage_rate = 0.05;
  training.stage_rate_of = [=](Minibatch p) { return 0.05 * share(p); };
  expect_trains_like_serial(training);
}

TEST(ServerStep, StagesClipTheirGradients) {
  for (const auto clips : {SerialOptimizer::Clips::stage, SerialOptimizer::Clips::wave}) {
    Training training = small({{8, {3, 5}}, {8, {3}}}, 3, 1);
    training.stage_rate = 0.125;
    training.optimizer.clip_norm = 0.3;
    training.optimizer.clips = clips;
    expect_trains_like_serial(training);
  }
}

// Schedules and weights of other systems.
TEST(ServerStep, UnderOtherSystems) {
  struct Of {
    const char* system;
    int in_flight, micro_batches;
  };
  for (const Of of : {Of{"gpipe", 1, 2}, {"ssp", 2, 1}, {"timeprest", 3, 2}, {"vanilla", 3, 1}}) {
    SCOPED_TRACE(of.system);
    Training training = small({{8, {3, 5}}, {8, {3}}}, of.in_flight, 1);
    if (of.system == std::string("ssp")) training.workers = {{8}, {8}};
    training.system = of.system;
    training.micro_batches = of.micro_batches;
    expect_trains_like_serial_system(training);
  }
}

TEST(ServerStep, ContinuesAsIfItHadNeverStopped) {
  for (const int distance : {0, 1, 2}) {
    SCOPED_TRACE(format("D = %d", distance));
    expect_continues_exactly(Bench(small({{8, {3, 5}}, {6, {3}}}, 2, distance)), {1, 4});
  }
}

// With empty pipelines, and what the servers know.
TEST(ServerStep, ResumesFromACheckpoint) {
  const Bench bench(small({{8, {3, 5}}, {6, {3}}}, 2, 1));
  const Trained whole = bench.train();
  const From from{whole.checkpoints.at(4)};
  expect_same(bench.train(from), bench.serial(from), bench.model());
}

}  // namespace server_step_test
}  // namespace hetpipe
