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
void expect_repeats(const Bench& bench, const SerialWsp::Granted& granted) {
  const Trained one = bench.train();
  expect_same(one, bench.train(), bench.model());
  expect_same(one, bench.serial_system(granted), bench.model());
}

void expect_simulated_labels(const Training& training) {
  const Bench bench(training);
  const std::shared_ptr<const Timeline> timeline = make_timeline(bench.job_of());
  bool differs = false;
  const auto granted = [&](int worker, Wave wave) {
    const auto label = timeline->label(VirtualWorkerId{worker}, wave);
    EXPECT_TRUE(label);
    const Wave bound = std::max<Wave>(0, wave - training.distance);
    differs |= *label != wave && *label != bound;
    return *label;
  };
  expect_repeats(bench, granted);
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

// By arrival a gate's label is how many gates have been passed before, and one more.
TEST(SimulatedTime, DecidesWhoseGateComesNext) {
  for (const int in_flight : {1, 2}) {
    SCOPED_TRACE(in_flight);
    Training training = unequal(in_flight == 1 ? "asp" : "hetpipe");
    training.sync = "asp";
    training.workers = {{8, {}}, {8, {}}, {4, {}}};
    if (in_flight > 1) training.workers = {{8, {3}}, {8, {}}, {4, {5}}};
    training.paces = {0.0011, 0.0042, 0.0019};
    training.in_flight = in_flight;
    const Bench bench(training);
    const TrainJob job = bench.job_of();
    const WaveRules rules = make_wave_rules(job, make_sampler(job));
    const std::shared_ptr<const Timeline> timeline = make_timeline(job);
    std::map<std::pair<double, int>, Wave> passed;
    for (int worker = 0; worker < rules.workers(); ++worker) {
      for (Wave wave = 0; rules.has_gate_behind(VirtualWorkerId{worker}, wave); ++wave) {
        passed[{timeline->passed(VirtualWorkerId{worker}, wave + 1), worker}] = wave + 1;
      }
    }
    std::map<std::pair<int, Wave>, Label> labels;
    bool overtakes = false;  // else any rule would do
    for (const auto& [when, wave] : passed) {
      const auto label = static_cast<Label>(labels.size()) + 1;
      labels[{when.second, wave}] = label;
      overtakes |= wave > label / rules.workers() + 1;
    }
    expect_repeats(bench, [&](int worker, Wave wave) { return labels.at({worker, wave}); });
    EXPECT_TRUE(overtakes);
  }
}

// One is up to two dozen waves ahead of the other, and keeps the sum of one, and the one before for
// as long as it may be on its way.
TEST(SimulatedTime, WhoIsFarAheadKeepsNoMore) {
  Training training = unequal("asp");
  training.model = "mlp";
  training.workers = {{8, {}}, {8, {}}};
  training.paces = {0.0011, 0.0042};
  training.in_flight = 1;
  const Bench bench(training);
  const Trained trained = bench.train();
  const auto parameters = static_cast<double>(
      ParameterLayout::parameters(bench.model(), 0, bench.model().layer_count()).count());
  double furthest = 0;
  for (const auto& [which, label] : trained.labels()) {
    const auto others = static_cast<double>(label) - static_cast<double>(which.second);
    furthest = std::max(furthest, static_cast<double>(which.second) - others);
  }
  EXPECT_GT(furthest, 8);  // waves
  int workers = 0;
  for (const RankReport& rank : trained.outcome.ranks) {
    if (rank.minibatches == 0) continue;
    ++workers;
    const auto messages = rank.peak_of_kind[static_cast<std::size_t>(MemoryKind::messages)];
    EXPECT_LE(static_cast<double>(messages), 2.1 * sizeof(float) * parameters);
  }
  EXPECT_EQ(workers, 2);
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
