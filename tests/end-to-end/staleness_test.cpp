// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "tests/end-to-end/training.h"

// Virtual workers that run ahead of each other (D > 0).
namespace hetpipe {
namespace end_to_end_staleness_test {

// A fast virtual worker and a slow one: labels depend on who comes first.
Training uneven(int distance) {
  Training training{.model = "lenet-bn", .workers = {{8, {4, 9}}, {8, {7}}}, .in_flight = 2};
  training.samples = 240;
  training.distance = distance;
  training.paces = {0.001, 0.003};
  return training;
}

// The gate of `wave` stands before the wave's last minibatch.
SerialWsp::Granted recorded(const std::map<std::pair<int, Minibatch>, Label>& labels,
                            int in_flight) {
  return [&labels, in_flight](int worker, Wave wave) {
    return labels.at({worker, (wave + 1) * in_flight - 1});
  };
}

TEST(Staleness, BoundIsReproducible) {
  for (const std::string device : {"reference", "cpu"}) {
    for (const int distance : {1, 2, 4}) {
      SCOPED_TRACE(format("%s, D = %d", device.c_str(), distance));
      Training training = uneven(distance);
      training.device = device;
      expect_trains_like_serial(training);
    }
  }
}

TEST(Staleness, BoundWithUnequalWorkersAndShards) {
  Training training = uneven(2);
  training.workers = {{5, {4}}, {9, {7}}, {8, {}}};
  training.paces = {};
  training.in_flight = 3;
  training.servers = 2;
  training.optimizer.name = "adam";
  training.optimizer.rate = 0.002f;
  expect_trains_like_serial(training);
}

// More than the run has waves: nobody ever waits, and nothing of the others is ever seen.
TEST(Staleness, BoundBeyondTheRun) {
  Training training = uneven(1000);
  training.paces = {};
  expect_trains_like_serial(training);
}

TEST(Staleness, EveryMinibatchHasTheLabelOfItsLastGate) {
  const Training training = uneven(2);
  const auto labels = Bench(training).train().labels();
  EXPECT_EQ(labels.size(), 30u);  // 240 samples by 8
  for (const auto& [which, label] : labels) {
    const Minibatch p = which.second;
    const Wave gate = p % 2 == 1 ? p / 2 : p / 2 - 1;
    EXPECT_EQ(label, std::max<Label>(0, gate - 2)) << which.first << ", minibatch " << p;
  }
}

// Minibatches of another virtual worker, below p, that F(p) does not see: over a wave's
// minibatches.
TEST(Staleness, IsReported) {
  Training training = uneven(2);
  training.in_flight = 4;
  const Trained trained = Bench(training).train();
  std::map<Wave, std::pair<double, double>> expected;  // smallest, largest
  for (const auto& [which, label] : trained.labels()) {
    const auto stale = static_cast<double>(std::max<Minibatch>(0, which.second - 4 * label));
    auto& [smallest, largest] = expected.try_emplace(which.second / 4, stale, stale).first->second;
    smallest = std::min(smallest, stale);
    largest = std::max(largest, stale);
  }
  const auto smallest = trained.metric("staleness_min");
  const auto largest = trained.metric("staleness_max");
  ASSERT_EQ(smallest.size(), expected.size());
  for (std::size_t i = 0; i < smallest.size(); ++i) {
    SCOPED_TRACE(format("wave %zu", i));
    EXPECT_EQ(smallest[i].value, expected.at(smallest[i].wave).first);
    EXPECT_EQ(largest[i].value, expected.at(largest[i].wave).second);
  }
}

TEST(Staleness, NewestIsReplayed) {
  for (const std::string device : {"reference", "cpu"}) {
    for (const int distance : {1, 2, 4}) {
      SCOPED_TRACE(format("%s, D = %d", device.c_str(), distance));
      Training training = uneven(distance);
      training.device = device;
      training.pull = "newest";
      const Bench bench(training);
      const Trained trained = bench.train();
      const auto labels = trained.labels();
      int newer = 0;
      const auto granted = recorded(labels, training.in_flight);
      const SerialWsp::Result replayed = bench.serial(std::nullopt, [&](int worker, Wave wave) {
        const Label label = granted(worker, wave);
        const Label bound = std::max<Label>(0, wave - distance);
        EXPECT_GE(label, bound);
        EXPECT_LE(label, wave);
        newer += label > bound;
        return label;
      });
      EXPECT_GT(newer, 0) << "no gate granted more than it had to";
      expect_same(trained, replayed, bench.model());
    }
  }
}

// Labels are granted one by one, to each virtual worker its own.
TEST(Staleness, NewestOfThreeWorkersAndTwoShards) {
  Training training = uneven(3);
  training.workers = {{5, {4}}, {9, {3, 9}}, {8, {}}};
  training.paces = {0.001, 0.002, 0.003};
  training.pull = "newest";
  training.servers = 2;
  const Bench bench(training);
  const Trained trained = bench.train();
  const auto labels = trained.labels();
  expect_same(trained, bench.serial(std::nullopt, recorded(labels, training.in_flight)),
              bench.model());
}

}  // namespace end_to_end_staleness_test
}  // namespace hetpipe
