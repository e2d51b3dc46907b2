// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/index.h"
#include "base/text.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/timeline.h"
#include "runtime/training/simulated_time.h"
#include "tests/end-to-end/training.h"

// Runs whose clock is simulated: the bits of a real run under the same labels, the simulator's
// times, and, where labels depend on time, the simulator's labels.
namespace hetpipe {
namespace simulated_time_test {

Training unequal(const std::string& system) {
  Training training;
  training.system = system;
  training.simulated = true;
  training.workers = {{8, {3}}, {8, {5}}, {4, {3}}};
  training.paces = {0.0038, 0.0042, 0.0019};  // the last has half as many samples
  training.in_flight = 2;
  return training;
}

double seconds_of(const TraceEvent& event) {
  return static_cast<double>(event.end_ns - event.start_ns) * 1e-9;
}

// Labels of whatever trained are those that the simulator decides, so they repeat, and a serial
// program under them ends with the same bits.
void expect_simulated_labels(const Training& training) {
  const Bench bench(training);
  const Trained one = bench.train();
  expect_same(one, bench.train(), bench.model());
  const std::shared_ptr<const Timeline> timeline = make_timeline(bench.job_of());
  bool differs = false;
  const auto granted = [&](int worker, Wave wave) {
    const auto label = timeline->label(VirtualWorkerId{worker}, wave);
    EXPECT_TRUE(label);
    const Wave bound = std::max<Wave>(0, wave - training.distance);
    differs |= *label != wave && *label != bound;
    return *label;
  };
  expect_same(one, bench.serial_system(granted), bench.model());
  EXPECT_TRUE(differs);  // else any rule would do
}

TEST(SimulatedTime, DecidesWhichLabelIsTheNewest) {
  for (const int distance : {2, 4}) {
    SCOPED_TRACE(distance);
    Training training = unequal("hetpipe");
    training.distance = distance;
    training.pull = "newest";
    expect_simulated_labels(training);
  }
}

TEST(SimulatedTime, DecidesLabelsWithoutABound) {
  Training training = unequal("asp");
  training.workers = {{8, {}}, {8, {}}, {4, {}}};
  training.in_flight = 1;
  training.distance = 1 << 20;  // of the comparison
  expect_simulated_labels(training);
}

// A run under other labels than those of real time would be another run.
TEST(SimulatedTime, ChangesNoBitsAndTakesTheSimulatorsTimes) {
  for (const System& system : systems()) {
    SCOPED_TRACE(system.name);
    const bool flush = traits(system.schedule).has_flush;
    const bool waves = traits(system.sync).waves();
    Training training = unequal(system.name);
    training.workers = {{8, {3, 5}}};
    training.paces = {0.003};
    if (system.name != "asp") {  // several would have labels of their own
      training.workers.push_back({4, {3, 5}});
      training.paces.push_back(0.001);
    }
    training.in_flight = flush || traits(system.weights).one_version ? 1 : 3;
    training.micro_batches = flush || system.name == "xpipe" || system.name == "timeprest" ? 2 : 1;
    training.test_samples = 20;
    const Bench bench(training);
    const Trained simulated = bench.train();
    training.simulated = false;
    expect_same(simulated, Bench(training).train(), bench.model());

    const std::shared_ptr<const Timeline> timeline = make_timeline(bench.job_of());
    double end = 0;
    int micro = 0;
    for (const Trace& trace : simulated.traces) {
      if (trace.info.virtual_worker < 0) continue;
      EXPECT_EQ(trace.clock, ClockEstimate{});
      std::int64_t before = 0;
      for (const TraceEvent& event : trace.events) {
        EXPECT_GE(event.start_ns, before) << event.kind << event.minibatch;
        before = event.end_ns;
        micro = std::max(micro, event.micro_batch);
        if (event.kind == 'F') {
          EXPECT_GT(seconds_of(event), 0.0001) << event.minibatch;
        } else if (event.kind == 'E') {
          EXPECT_EQ(event.start_ns, event.end_ns);
        }
      }
      EXPECT_FALSE(trace.events.empty());
      end = std::max(end, static_cast<double>(before) * 1e-9);
    }
    if (flush) {
      EXPECT_EQ(micro, training.micro_batches - 1);
    }
    EXPECT_NEAR(simulated.outcome.seconds, timeline->seconds(), waves ? 1e-9 : 2e-3);
    EXPECT_NEAR(end, timeline->seconds(), waves ? 1e-6 : 2e-3);
    for (const RankReport& rank : simulated.outcome.ranks) {
      const double sum = rank.forward_seconds + rank.backward_seconds + rank.update_seconds +
                         rank.transfer_seconds + rank.bubble_seconds + rank.server_wait_seconds;
      EXPECT_NEAR(sum, rank.total_seconds, 1e-6);
      EXPECT_EQ(rank.evaluate_seconds, 0);
    }
    double last = 0;
    for (const auto& evaluation : simulated.outcome.evaluations) {
      EXPECT_GE(evaluation.seconds, last);
      last = evaluation.seconds;
    }
    EXPECT_GT(last, 0);
  }
}

// Twice as slow a model's plan: the same bits, twice the time.
TEST(SimulatedTime, MayBeThatOfAnotherPlan) {
  Training training = unequal("hetpipe");
  const Bench bench(training);
  const Trained own = bench.train();
  for (double& pace : training.paces) pace *= 2;
  const Bench other(training);
  EXPECT_EQ(why_not_time_of(other.job_of().plan, bench.job_of().plan), "");
  const Trained slower = other.train();
  expect_same(own, slower, bench.model());
  EXPECT_NEAR(slower.outcome.seconds, 2 * own.outcome.seconds, 0.01 * own.outcome.seconds);
  Plan plan = bench.job_of().plan;
  plan.in_flight = 3;
  EXPECT_EQ(why_not_time_of(plan, bench.job_of().plan),
            "it has minibatches in flight: 3, the plan that is trained 2");
}

}  // namespace simulated_time_test
}  // namespace hetpipe
