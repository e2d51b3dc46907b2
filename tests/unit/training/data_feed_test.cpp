// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/data_feed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace hetpipe {
namespace data_feed_test {

// Two virtual workers: one of two replicas with shares 3 and 1, one alone.
Plan plan_of(double throughput) {
  Plan plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\nin_flight = 2\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 3]\n"
      "devices = [\"a:0\", \"a:1\"]\nshares = [6, 2]\n"
      "[[virtual_worker.stage]]\nlayers = [3, 7]\ndevices = [\"b:0\"]\n"
      "[[virtual_worker]]\nminibatch = 24\n[[virtual_worker.stage]]\nlayers = [0, 7]\n"
      "devices = [\"c:0\"]\n[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  plan.predicted.emplace().throughput = throughput;
  return plan;
}

double taken_by(const Plan& plan, int virtual_worker, int replica) {
  Role::Worker worker;
  worker.virtual_worker = VirtualWorkerId{virtual_worker};
  worker.stages = {StageId{0}};
  worker.replica = replica;
  return samples_taken(plan, worker);
}

TEST(SamplesTaken, FollowMinibatchesAndShares) {
  const Plan plan = plan_of(400);
  EXPECT_DOUBLE_EQ(taken_by(plan, 0, 0), 75);
  EXPECT_DOUBLE_EQ(taken_by(plan, 0, 1), 25);
  EXPECT_DOUBLE_EQ(taken_by(plan, 1, 0), 300);
  EXPECT_DOUBLE_EQ(most_samples_taken(plan), 300);
  Plan unpredicted = plan;
  unpredicted.predicted.reset();
  EXPECT_EQ(most_samples_taken(unpredicted), 0);
}

TEST(ThreadsFor, ATenthInReserve) {
  const FeedRate busy{
      .samples_per_second = 100, .threads = 2, .cores = 1.9, .waited_for_files = false};
  EXPECT_TRUE(suffices(busy, 90));
  EXPECT_FALSE(suffices(busy, 95));
  EXPECT_EQ(threads_for(busy, 90), 2);
  EXPECT_EQ(threads_for(busy, 95), 3);
  EXPECT_EQ(threads_for(busy, 1), 1);
  const FeedRate waiting{
      .samples_per_second = 100, .threads = 2, .cores = 0.4, .waited_for_files = true};
  EXPECT_EQ(threads_for(waiting, 95), 0);
}

// Each sample takes a while, and so do two threads half of it.
class Slow final : public SampleStore {
 public:
  SampleType type() const override { return SampleType::pixels; }
  void read(SampleKey, std::byte* out) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    *out = std::byte{1};
  }
  std::int64_t held_bytes() const override { return 1000; }
};

Dataset slow_data() {
  Dataset data;
  data.height = data.width = data.channels = 1;
  data.size = 100;
  data.store = std::make_shared<Slow>();
  return data;
}

TEST(MeasureFeed, CountsWhatIsReadAndWhatItCosts) {
  const Dataset data = slow_data();
  const Sampler order(1, data.size, {8}, 0, data.size);
  FeedRate rate = measure_feed(data, order, 0, 8, 2, 0.1);
  // A machine that is busy may oust the threads more often than they sleep.
  for (int tries = 0; tries < 20 && !rate.waited_for_files; ++tries) {
    rate = measure_feed(data, order, 0, 8, 2, 0.1);
  }
  EXPECT_EQ(rate.threads, 2);
  EXPECT_GT(rate.samples_per_second, 0);
  EXPECT_LE(rate.samples_per_second, 2 / 0.002);  // no thread reads faster than it sleeps
  EXPECT_LT(rate.cores, 1);                       // it sleeps
  EXPECT_EQ(threads_for(rate, 1e6), 0);
}

TEST(HeldBytes, TheIndexAndTheMinibatchesAhead) {
  Dataset data = slow_data();
  EXPECT_EQ(held_bytes(data, 8), 1000 + 5 * 8);
  data.labels.resize(100);
  EXPECT_EQ(held_bytes(data, 8), 1000 + 400 + 5 * 8 * (1 + 4));
  data.store.reset();
  data.pixels.resize(100);
  EXPECT_EQ(held_bytes(data, 8), 100 + 400 + 5 * 8 * (1 + 4));
}

}  // namespace data_feed_test
}  // namespace hetpipe
