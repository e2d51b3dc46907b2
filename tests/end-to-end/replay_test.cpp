// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launch/trace/recorded_run.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/simulate.h"
#include "tests/end-to-end/training.h"

// A run whose clock is simulated, its traces as durations, and these replayed: with a profile and a
// cluster that are ten times as slow, so that no time of them can be in the result.
namespace hetpipe {
namespace replay_test {

Training with_clock(const std::string& system) {
  Training training;
  training.system = system;
  training.simulated = true;
  training.parameters_travel = true;
  training.samples = 100;
  training.workers = {{8, {3, 5}}, {4, {3, 5}}};
  training.paces = {0.003, 0.001};
  return training;
}

struct Outcome {
  RecordedRun run;
  Simulation replayed;
};

Outcome outcome_of(const Training& training) {
  const Bench bench(training);
  const TrainJob job = bench.job_of();
  Outcome outcome{recorded_run(bench.train().traces, job.plan, *job.profile), {}};
  const Durations read = parse_durations(to_csv(outcome.run.durations), "run.csv");
  Profile slower = *job.profile;
  for (Measurement& m : slower.measurements) {
    for (double& seconds : m.forward) seconds *= 10;
    for (double& seconds : m.backward) seconds *= 10;
  }
  SimulationRequest request;
  request.durations = &read;
  request.ledgers = false;
  outcome.replayed = simulate(job.plan, *job.cluster, slower, request);
  return outcome;
}

void expect_replayed(const Training& training) {
  const Outcome outcome = outcome_of(training);
  ASSERT_TRUE(outcome.replayed.replayed);
  const Replayed& replayed = *outcome.replayed.replayed;
  EXPECT_GT(outcome.run.seconds, 0.01);
  EXPECT_NEAR(replayed.seconds, outcome.run.seconds, 1e-6);
  EXPECT_EQ(replayed.minibatches, outcome.run.durations.minibatches());
  EXPECT_EQ(replayed.recorded, static_cast<std::int64_t>(outcome.run.durations.rows().size()));
  EXPECT_TRUE(replayed.of_profile.empty());
  EXPECT_EQ(replayed.medians, 0);
}

TEST(Replay, OfEverySystemTakesTheTimeOfItsRun) {
  for (const System& system : systems()) {
    SCOPED_TRACE(system.name);
    const bool flush = traits(system.schedule).has_flush;
    Training training = with_clock(system.name);
    training.in_flight = flush || traits(system.weights).one_version ? 1 : 3;
    training.micro_batches = flush || system.name == "xpipe" || system.name == "timeprest" ? 2 : 1;
    expect_replayed(training);
  }
}

// Replicas that split a micro-batch unequally, at both ends of a cut.
TEST(Replay, OfReplicatedStages) {
  Training training = with_clock("dapple");
  training.workers = {{8, {3, 5}, {{3, 1}, {}, {2, 1, 1}}}};
  training.paces = {0.003};
  training.micro_batches = 2;
  expect_replayed(training);
  training.system = "hetpipe";
  training.micro_batches = 1;
  training.workers = {{8, {3, 5}, {{5, 3}}}, {4, {3, 5}}};
  training.paces = {0.003, 0.001};
  training.in_flight = 3;
  expect_replayed(training);
}

TEST(Replay, OfChunksAndRecomputation) {
  Training training = with_clock("pipedream-flush");
  training.workers = {{8, {2, 4, 6}}};
  training.workers[0].recompute = true;
  training.paces = {0.003};
  training.schedule = "interleaved-1f1b";
  training.chunks = 2;
  training.micro_batches = 4;
  expect_replayed(training);
}

// Waves ahead of each other: labels that follow from the plan, and those that follow from time.
TEST(Replay, OfClockDistances) {
  for (const std::string pull : {"bound", "newest"}) {
    SCOPED_TRACE(pull);
    Training training = with_clock("hetpipe");
    training.in_flight = 2;
    training.distance = 2;
    training.pull = pull;
    expect_replayed(training);
  }
}

// What is replayed are the times of the file, one by one.
TEST(Replay, FollowsEachTime) {
  Training training = with_clock("dapple");
  training.workers = {{8, {3, 5}}};
  training.paces = {0.003};
  training.micro_batches = 2;
  const Bench bench(training);
  const TrainJob job = bench.job_of();
  const RecordedRun run = recorded_run(bench.train().traces, job.plan, *job.profile);
  std::vector<Duration> rows = run.durations.rows();
  for (Duration& row : rows) {
    if (row.what == Timed::backward && row.where.stage == 1 && row.minibatch == 4) row.seconds += 1;
  }
  const Durations longer(rows);
  SimulationRequest request;
  request.durations = &longer;
  const Simulation s = simulate(job.plan, *job.cluster, *job.profile, request);
  EXPECT_NEAR(s.replayed->seconds, run.seconds + 2, 0.01);  // of two micro-batches
}

// A trace that is not this plan's.
TEST(Replay, RefusesTracesOfAnotherPlan) {
  Training training = with_clock("hetpipe");
  const Bench bench(training);
  const Trained trained = bench.train();
  training.workers.push_back({8, {3}});
  training.paces.push_back(0.001);
  const TrainJob other = Bench(training).job_of();
  EXPECT_THROW(recorded_run(trained.traces, other.plan, *other.profile), UserError);
}

}  // namespace replay_test
}  // namespace hetpipe
