// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "base/text.h"
#include "runtime/training/exact.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/said.h"
#include "tests/end-to-end/training.h"

// A run that is asked to stop, and whose wave would end after the notice, stops inside of it: as a
// run that was to end there. Continued on the same plan, it ends as if it had not stopped.
namespace hetpipe {
namespace stop_inside_test {

namespace fs = std::filesystem;
struct Stopped {
  RunEnd end;
  std::string said;
  std::optional<Checkpoint> checkpoint;  // the newest
};

Stopped stop_after(const Bench& bench, int waves, double notice,
                   const std::optional<Checkpoint>& from = std::nullopt) {
  const fs::path folder = fs::temp_directory_path() / format("hetpipe-stop-inside-%d", ::getpid());
  fs::create_directories(folder);
  TrainJob job = bench.job_of();
  job.checkpoint_folder = folder;
  job.trace_folder.clear();
  job.notice_seconds = notice;
  if (from) {
    write_checkpoint(folder / "from.h5", *from);
    job.start = exact_start(folder / "from.h5", *from);
  }
  const Roles roles = assign_roles(
      job.plan,
      std::vector<std::string>(
          static_cast<std::size_t>(job.plan.worker_ranks() + job.plan.server_ranks()), "here"),
      Matching::plan_order);
  Said said;
  Log log(said.file(), said.file(), Log::Terminal::no);
  Stopped stopped;
  stopped.end = train_as_threads(
      job, roles, [&](Split, Parts) { return bench.data(); }, "here", log,
      [&] { return said.waves() < waves ? std::nullopt : std::optional(SIGUSR1); });
  stopped.said = said.text();
  if (const auto newest = newest_checkpoint(folder)) stopped.checkpoint = read_checkpoint(*newest);
  fs::remove_all(folder);
  return stopped;
}

void expect_same(const Checkpoint& one, const Checkpoint& other) {
  EXPECT_EQ(one.label, other.label);
  EXPECT_EQ(one.sampler, other.sampler);
  EXPECT_EQ(one.minibatches, other.minibatches);
  EXPECT_EQ(one.worker_minibatches, other.worker_minibatches);
  EXPECT_EQ(one.optimizer_step, other.optimizer_step);
  EXPECT_TRUE(one.parameters == other.parameters) << "parameters";
  EXPECT_TRUE(one.statistics == other.statistics) << "statistics";
  EXPECT_TRUE(one.slots == other.slots) << "optimizer";
}

Training of(std::vector<Training::Worker> workers, int in_flight, int distance) {
  Training training{.model = "mlp",
                    .samples = 150,
                    .workers = std::move(workers),
                    .in_flight = in_flight,
                    .distance = distance,
                    .servers = 2,
                    .epochs = 8};
  training.optimizer.name = "adam";
  training.optimizer.rate = 0.002f;
  return training;
}

// Whether it stopped inside of a wave; wherever it was, it ended as a run that was to end there.
bool stops_inside(const Training& training, int waves) {
  const Bench bench(training);
  const Stopped stopped = stop_after(bench, waves, 1e-9);
  EXPECT_EQ(stopped.end.code, ExitCode::stopped);
  if (!stopped.checkpoint) {
    ADD_FAILURE() << "no checkpoint: " << stopped.said;
    return false;
  }
  const Checkpoint& checkpoint = *stopped.checkpoint;
  EXPECT_EQ(stopped.end.outcome.stopped, checkpoint.label);
  Training shorter = training;
  shorter.epochs = static_cast<double>(checkpoint.sampler.consumed) / 150;
  const Trained there = Bench(shorter).train();
  expect_same(checkpoint, there.checkpoints.at(there.end()));
  const bool inside = stopped.said.find("stopping inside of wave") != std::string::npos;
  EXPECT_EQ(inside, checkpoint.worker_minibatches.value_or(0) % training.wave() != 0);
  if (inside) {  // the rest, with empty pipelines from there on
    From from{checkpoint};
    from.updates = checkpoint.optimizer_step;
    hetpipe::expect_same(bench.train(from), bench.serial(from), bench.model());
  }
  const Trained whole = bench.train();
  const auto continues = [&](const Checkpoint& from) {
    const bool within = from.exact->numbers.contains("inside");
    expect_part_of(bench.train(From{from, true}), whole, from.label + (within ? 0 : 1),
                   whole.end());
  };
  continues(checkpoint);
  const Stopped again = stop_after(bench, 0, 1e-9, checkpoint);  // before a wave has ended
  if (again.end.code != ExitCode::done) continues(again.checkpoint.value());
  return inside;
}

// With D > 0 one virtual worker does not wait at gates, so it is nearly always inside.
TEST(StopInside, EndsAsARunThatWasToEndThere) {
  bool inside = false;
  for (int waves = 3; waves < 9 && !inside && !HasFailure(); ++waves) {
    inside = stops_inside(of({{8, {2, 4}}}, 5, 3), waves);
  }
  EXPECT_TRUE(inside);
}

TEST(StopInside, WhereverTheOthersAre) {
  for (const int distance : {0, 2}) {
    for (const int waves : {3, 4}) {
      stops_inside(of({{8, {2, 4}}, {6, {3}}}, 5, distance), waves);
    }
  }
}

// The part of the wave was pushed rounded; the continuation pushes the whole wave.
TEST(StopInside, WhereWhatIsPushedIsRounded) {
  Training training = of({{8, {2, 4}}, {6, {3}}}, 5, 2);
  training.push_precision = "bf16";
  stops_inside(training, 3);
}

// Rounds are long: before and behind their gates, with the sum so far and the servers' momentum.
TEST(StopInside, RoundsWithOuterSteps) {
  Training training = of({{8, {2, 4}}, {6, {3}}}, 2, 1);
  training.sync = "outer";
  training.round = 4;
  training.scale = "mean";
  bool inside = false;
  for (const int waves : {2, 3, 4}) inside |= stops_inside(training, waves);
  EXPECT_TRUE(inside);
}

// The wave is taken up again from what the servers knew before it.
TEST(StopInside, WithTheOptimizerAtTheServers) {
  for (const int distance : {0, 2}) {
    Training training = of({{8, {2, 4}}, {6, {3}}}, 5, distance);
    training.sync = "server-step";
    training.scale = "mean";
    training.optimizer.name = "adam";
    for (const int waves : {3, 4}) stops_inside(training, waves);
  }
}

// Long enough a notice: the end of the wave, and the exact state.
TEST(StopAtTheEndOfAWave, WhereTheNoticeSuffices) {
  Training training{.model = "mlp", .samples = 150, .workers = {{8, {2}}, {6, {}}}, .in_flight = 4};
  training.epochs = 8;
  training.optimizer.rate = 0.005f;
  const Stopped stopped = stop_after(Bench(training), 4, 1e6);
  ASSERT_EQ(stopped.end.code, ExitCode::stopped);
  ASSERT_TRUE(stopped.checkpoint);
  EXPECT_EQ(stopped.checkpoint->sampler.consumed % (14 * 4), 0);
  EXPECT_TRUE(stopped.checkpoint->exact);
}

}  // namespace stop_inside_test
}  // namespace hetpipe
