// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "base/json.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/training.h"

// A run that is to reach an accuracy stops soon after it has, with a checkpoint; what it did until
// then is what it would have done anyway.
namespace hetpipe {
namespace target_test {

Training small(int distance) {
  Training training{.model = "mlp",
                    .samples = 150,
                    .test_samples = 60,
                    .workers = {{8, {3}}, {6, {}}},
                    .in_flight = 2,
                    .distance = distance,
                    .epochs = 8,
                    .evaluate_every = 1};
  training.optimizer.rate = 0.02f;
  return training;
}

Json json_of(const Bench& bench, const Trained& trained) {
  return Json::parse(
      result_json(bench.job_of(), {.code = trained.code, .outcome = trained.outcome}));
}

TEST(Target, TheRunStopsOnceItIsReached) {
  // Four servers for three layers: one has nothing to form labels of.
  for (const auto& [distance, servers] : {std::pair{0, 1}, {2, 1}, {0, 4}, {1, 4}}) {
    SCOPED_TRACE(testing::Message() << "D = " << distance << ", servers " << servers);
    Training training = small(distance);
    training.servers = servers;
    const Trained whole = Bench(training).train();
    EXPECT_EQ(whole.outcome.target, std::nullopt);
    ASSERT_GT(whole.outcome.evaluations.size(), 10u);
    // What the whole run had after a third of its way, and not before.
    double target = 0;
    for (std::size_t e = 0; e < whole.outcome.evaluations.size() / 3; ++e) {
      target = std::max(target, whole.outcome.evaluations[e].accuracy.value());
    }
    training.target_accuracy = target;
    const auto expected =
        std::find_if(whole.outcome.evaluations.begin(), whole.outcome.evaluations.end(),
                     [&](const auto& evaluation) { return evaluation.accuracy.value() >= target; });

    const Bench bench(training);
    const Trained trained = bench.train();
    EXPECT_EQ(trained.code, ExitCode::done);
    ASSERT_TRUE(trained.outcome.target.has_value());
    EXPECT_EQ(trained.outcome.target->label, expected->label);
    EXPECT_EQ(trained.outcome.target->accuracy, expected->accuracy);
    EXPECT_TRUE(trained.outcome.stopped_at_target);
    EXPECT_EQ(trained.outcome.stopped, trained.end());
    EXPECT_LT(trained.end(), whole.end());
    EXPECT_GT(trained.end(), expected->label);
    for (const auto& [label, checkpoint] : trained.checkpoints) {
      EXPECT_TRUE(checkpoint.parameters == whole.checkpoints.at(label).parameters) << label;
    }
    const Json json = json_of(bench, trained);
    EXPECT_EQ(json.at("exit"), "target-accuracy");
    EXPECT_EQ(json.at("exit_code"), 0);
    EXPECT_EQ(json.at("target").at("label"), expected->label);
    EXPECT_EQ(json.at("time_to_target"), json.at("target").at("seconds"));
    EXPECT_THAT(target_text(bench.job_of(), trained.outcome),
                testing::HasSubstr("reached after wave"));
  }
}

TEST(Target, ARunThatDoesNotReachItEndsAsAlways) {
  Training training = small(0);
  training.optimizer.rate = 1e-9f;
  training.epochs = 1;
  training.target_accuracy = 1;
  const Bench bench(training);
  const Trained trained = bench.train();
  EXPECT_EQ(trained.code, ExitCode::done);
  EXPECT_EQ(trained.outcome.target, std::nullopt);
  EXPECT_EQ(trained.outcome.stopped, std::nullopt);
  EXPECT_EQ(trained.end(), 6);  // 150 samples in waves of 28
  EXPECT_THAT(target_text(bench.job_of(), trained.outcome), testing::HasSubstr("was not reached"));
  const Json json = json_of(bench, trained);
  EXPECT_EQ(json.at("exit"), "finished");
  EXPECT_EQ(json.at("target").at("reached"), false);
  EXPECT_TRUE(json.at("time_to_target").is_null());
}

// Somebody who asks for a stop gets the exit code that says so, target or not.
TEST(Target, AStopOnRequestIsNotTheTarget) {
  Training training = small(0);
  training.optimizer.rate = 1e-9f;
  training.target_accuracy = 1;
  const Bench bench(training);
  const Trained trained = bench.train(std::nullopt, [] { return std::optional(SIGUSR1); });
  EXPECT_EQ(trained.code, ExitCode::stopped);
  EXPECT_FALSE(trained.outcome.stopped_at_target);
  EXPECT_EQ(json_of(bench, trained).at("exit"), "stopped");
}

TEST(Result, HoldsWhatTheRunDid) {
  Training training = small(1);
  training.epochs = 2;
  const Bench bench(training);
  const Trained trained = bench.train();
  const Json json = json_of(bench, trained);
  EXPECT_EQ(json.at("system"), "hetpipe");
  EXPECT_EQ(json.at("samples"), 300);
  EXPECT_TRUE(json.at("target").is_null());
  EXPECT_GT(json.at("throughput").get<double>(), 0);
  EXPECT_EQ(json.at("staleness").at("min"), 0);
  EXPECT_EQ(json.at("staleness").at("max"), 4);  // (D + 1) Nm + Nm - 1 - 1

  // Labels of 28 samples each, the last one partial; their time continues.
  const Json& evaluations = json.at("evaluations");
  ASSERT_GE(evaluations.size(), 6u);
  EXPECT_GT(evaluations.items().front().at("seconds").get<double>(), 0);
  double before = 0;
  for (const Json& evaluation : evaluations.items()) {
    const int label = evaluation.at("label").get<int>();
    EXPECT_EQ(evaluation.at("samples"), std::min(28 * label, 300)) << label;
    EXPECT_GE(evaluation.at("seconds").get<double>(), before) << label;
    before = evaluation.at("seconds").get<double>();
  }
  EXPECT_EQ(evaluations.items().back().at("label"), trained.end());
  EXPECT_EQ(evaluations.items().back().at("test_accuracy"), json.at("test_accuracy"));

  // Two stages of the first virtual worker, one of the second.
  const Json& ranks = json.at("ranks");
  ASSERT_EQ(ranks.size(), 3u);
  EXPECT_EQ(ranks.at(1).at("virtual_worker"), 0);
  EXPECT_EQ(ranks.at(1).at("stage"), 1);
  EXPECT_EQ(ranks.at(1).at("device"), "n0:1");
  EXPECT_GT(ranks.at(1).at("peak_memory").get<std::int64_t>(), 0);
  const int minibatches = ranks.at(0).at("minibatches").get<int>();
  EXPECT_EQ(minibatches, 22);  // 300 samples in rounds of 14
  EXPECT_EQ(ranks.at(0).at("messages").at("forward"), minibatches);
  EXPECT_EQ(ranks.at(0).at("messages").at("backward"), 0);
  EXPECT_EQ(ranks.at(1).at("messages").at("backward"), minibatches);
  EXPECT_EQ(ranks.at(0).at("messages").at("pushes"), 11);
  EXPECT_EQ(ranks.at(2).at("messages").at("forward"), 0);
  EXPECT_GT(ranks.at(0).at("bytes").at("forward").get<std::int64_t>(), 0);
}

}  // namespace target_test
}  // namespace hetpipe
