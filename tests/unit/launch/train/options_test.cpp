// SPDX-License-Identifier: Apache-2.0
#include "launch/train/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace train_options_test {

using ::testing::HasSubstr;

// The problems of these words, empty: none.
std::string problems_of(TrainOptions& options, const std::vector<std::string>& words) {
  OptionTable table = train_option_table(options);
  try {
    EXPECT_TRUE(read_options(table, {"hetpipe", words},
                             [&](Problems& problems) { check_train_options(options, problems); }));
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TrainOptions, APlanAndDataAreEnough) {
  TrainOptions options;
  EXPECT_EQ(problems_of(options, {"--plan", "p.toml", "--data", "fashion-mnist"}), "");
  EXPECT_EQ(options.plan, "p.toml");
  EXPECT_EQ(options.epochs, 1);
  EXPECT_EQ(options.transport, "mpi");
  EXPECT_EQ(options.planning.clock_distance, std::nullopt);
}

TEST(TrainOptions, EverythingCanBeSaid) {
  TrainOptions options;
  EXPECT_EQ(problems_of(options, {"--cluster", "c",
                                  "--profile", "p",
                                  "--model",   "lenet",
                                  "--data",    "d",
                                  "--output",  "o",
                                  "--resume",  "--epochs",
                                  "0.5",       "--minibatch",
                                  "16",        "--system",
                                  "hetpipe",   "--policy",
                                  "ed",        "--in-flight",
                                  "3",         "--virtual-workers",
                                  "2",         "--clock-distance",
                                  "4",         "--pull",
                                  "newest",    "--scale",
                                  "mean",      "--servers",
                                  "n0,n1",     "--placement",
                                  "local",     "--optimizer",
                                  "adam",      "--learning-rate",
                                  "0.002",     "--momentum",
                                  "0.8",       "--weight-decay",
                                  "1e-4",      "--seed",
                                  "7",         "--device",
                                  "reference", "--threads",
                                  "2",         "--transport",
                                  "threads",   "--evaluate-every",
                                  "10",        "--checkpoint-every",
                                  "20",        "--trace",
                                  "off",       "--timeout",
                                  "5"}),
            "");
  EXPECT_EQ(options.resume, "latest");
  EXPECT_EQ(options.planning.clock_distance, 4);
  EXPECT_EQ(options.planning.servers, (std::vector<std::string>{"n0", "n1"}));
  EXPECT_EQ(options.seed, 7);
  EXPECT_FALSE(options.trace);
}

TEST(TrainOptions, AMomentumMeansSgd) {
  const auto optimizer_of = [](std::vector<std::string> words) {
    TrainOptions options;
    words.insert(words.end(), {"--data", "d"});
    EXPECT_EQ(problems_of(options, words), "");
    return planning_of(options).optimizer;
  };
  EXPECT_EQ(optimizer_of({"--cluster", "c", "--model", "m"}), std::nullopt);
  EXPECT_EQ(optimizer_of({"--cluster", "c", "--model", "m", "--momentum", "0.9"}), "sgd-momentum");
  EXPECT_EQ(optimizer_of({"--cluster", "c", "--model", "m", "--nesterov"}), "sgd-momentum");
  EXPECT_EQ(
      optimizer_of({"--cluster", "c", "--model", "m", "--momentum", "0.9", "--optimizer", "muon"}),
      "muon");
  EXPECT_EQ(optimizer_of({"--plan", "p", "--momentum", "0.9"}), std::nullopt);
}

TEST(TrainOptions, RatesClippingSmoothingAndTarget) {
  TrainOptions options;
  EXPECT_EQ(problems_of(options, {"--plan",
                                  "p",
                                  "--data",
                                  "d",
                                  "--lr-schedule",
                                  "step",
                                  "--lr-steps",
                                  "1,2.5",
                                  "--lr-decay",
                                  "0.5",
                                  "--lr-warmup",
                                  "0.25",
                                  "--clip-norm",
                                  "1.5",
                                  "--clip-scope",
                                  "wave",
                                  "--label-smoothing",
                                  "0.1",
                                  "--target-accuracy",
                                  "0.9",
                                  "--json"}),
            "");
  EXPECT_EQ(options.rate.schedule, "step");
  EXPECT_EQ(options.rate.steps, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(options.rate.decay, 0.5);
  EXPECT_EQ(options.clip_scope, "wave");
  EXPECT_EQ(options.target_accuracy, 0.9);
  EXPECT_TRUE(options.json);
  TrainOptions bad;
  const std::string text =
      problems_of(bad, {"--plan", "p", "--data", "d", "--clip-scope", "stage", "--lr-power", "2",
                        "--lr-steps", "1,x", "--target-accuracy", "90", "--label-smoothing", "-1"});
  EXPECT_THAT(text, HasSubstr("--clip-scope: has no effect without --clip-norm"));
  EXPECT_THAT(text, HasSubstr("--lr-power: cannot be combined with --lr-schedule constant"));
  EXPECT_THAT(text, HasSubstr("--lr-steps: 'x' (not a number)"));
  EXPECT_THAT(text, HasSubstr("--target-accuracy: '90' (must be at most 1)"));
  EXPECT_THAT(text, HasSubstr("--label-smoothing: '-1' (must be at least 0)"));
}

TEST(TrainOptions, WhatAPlanHasSettledCannotBeSaidAgain) {
  TrainOptions options;
  const std::string text = problems_of(options, {"--plan", "p", "--data", "d", "--in-flight", "2",
                                                 "--policy", "np", "--clock-distance", "1"});
  EXPECT_THAT(text, HasSubstr("--in-flight: cannot be combined with --plan"));
  EXPECT_THAT(text, HasSubstr("--policy: cannot be combined with --plan"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("--clock-distance")));
}

TEST(TrainOptions, WithoutAPlanOneMustBePossible) {
  TrainOptions options;
  const std::string text = problems_of(options, {"--epochs", "0", "--resume"});
  EXPECT_THAT(text, HasSubstr("--cluster: is missing"));
  EXPECT_THAT(text, HasSubstr("--model: is missing"));
  EXPECT_THAT(text, HasSubstr("--data: is missing"));
  EXPECT_THAT(text, HasSubstr("--epochs: '0' (must be above 0)"));
  EXPECT_THAT(text, HasSubstr("--resume: does not say what to resume"));
}

TEST(TrainOptions, AResumedRunKeepsItsPlan) {
  TrainOptions options;
  EXPECT_EQ(problems_of(options, {"--data", "d", "--output", "o", "--resume"}), "");
}

TEST(TrainOptions, SomeWinOverAPlan) {
  TrainOptions options;
  problems_of(options, {"--plan", "p", "--data", "d", "--clock-distance", "3", "--scale", "mean",
                        "--push-precision", "bf16"});
  Plan plan;
  EXPECT_THROW(override_plan(options.planning, {}, plan), UserError);
  plan.server = PlanServer{};
  override_plan(options.planning, {}, plan);
  EXPECT_EQ(plan.server->clock_distance, 3);
  EXPECT_EQ(plan.server->scale, "mean");
  EXPECT_TRUE(plan.server->halves_pushes());
  EXPECT_TRUE(plan.server->pulls_newest());  // the usual with D > 0
}

}  // namespace train_options_test
}  // namespace hetpipe
