// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace training_rates_test {

using testing::HasSubstr;

// Two virtual workers with minibatches of 6 and 4: a round of 10 samples.
TrainJob job_of(const StartingPoint& start = {}) {
  TrainJob job;
  job.plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 6\nin_flight = 2\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 7]\ndevices = [\"a:0\"]\n"
      "[[virtual_worker]]\nminibatch = 4\n[[virtual_worker.stage]]\nlayers = [0, 7]\n"
      "devices = [\"b:0\"]\n[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  job.dataset_size = 200;
  job.end_position = 600;
  job.optimizer.learning_rate = 0.5;
  job.start = start;
  return job;
}

std::string problems_of(const RateOptions& options) {
  Problems problems;
  check_rate_options(options, problems);
  if (problems.empty()) check_rate_schedule(options, job_of(), problems);
  try {
    problems.throw_if_any();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Rates, EpochsBecomeMinibatches) {
  const RateSchedule schedule = rate_schedule(
      {.schedule = "step", .warmup = 0.5, .decay = 0.2, .steps = {1, 2.25}}, job_of());
  EXPECT_EQ(schedule.rule, RateRule::step);
  EXPECT_EQ(schedule.warmup, 10);
  EXPECT_EQ(schedule.decay, 0.2);
  EXPECT_EQ(schedule.milestones, (std::vector<double>{20, 45}));
  EXPECT_EQ(schedule.length, 60);
  EXPECT_EQ(schedule.shift, 0);
  EXPECT_EQ(rate_schedule({.schedule = "step", .every = 2}, job_of()).every, 40);
}

// Where numbers and samples agree, there is no shift: a run resumed on its own plan has, minibatch
// by minibatch, the rates of one that was not.
TEST(Rates, AResumedRunGoesOn) {
  const RateOptions options{.schedule = "cosine", .warmup = 1, .final_rate = 0.1};
  const RateSchedule whole = rate_schedule(options, job_of());
  for (const bool exact : {true, false}) {
    StartingPoint start = StartingPoint::empty_pipelines("c.h5", 7, 140, {});
    if (exact) {
      start.exact = true;
      start.origin_label = 0;
      start.origin_consumed = 0;
    }
    const RateSchedule resumed = rate_schedule(options, job_of(start));
    for (Minibatch p = 14; p < 60; ++p) {
      EXPECT_EQ(rate_at(resumed, 0.5, p), rate_at(whole, 0.5, p)) << p;
    }
  }
}

// Under another plan the numbers say less; the samples count: label 7 is minibatch 14, and 400
// samples are position 40.
TEST(Rates, AnotherPlanGoesOnFromTheSamples) {
  const RateSchedule schedule = rate_schedule(
      {.schedule = "polynomial"}, job_of(StartingPoint::empty_pipelines("c.h5", 7, 400, {})));
  EXPECT_EQ(schedule.shift, 26);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 0.5, 14), 0.5 * 20 / 60);
}

TEST(Rates, OptionsThatDoNotFit) {
  EXPECT_EQ(problems_of({}), "");
  EXPECT_EQ(problems_of({.schedule = "step", .steps = {1}}), "");
  EXPECT_THAT(problems_of({.schedule = "step"}), HasSubstr("does not say when the rate falls"));
  EXPECT_THAT(problems_of({.schedule = "step", .steps = {1}, .every = 1}),
              HasSubstr("--lr-steps and --lr-every"));
  EXPECT_THAT(problems_of({.schedule = "step", .steps = {2, 1}}), HasSubstr("ascending"));
  EXPECT_THAT(
      problems_of({.schedule = "cosine", .steps = {1}, .power = 2}),
      testing::AllOf(HasSubstr("--lr-steps: cannot be combined with --lr-schedule cosine"),
                     HasSubstr("--lr-power: cannot be combined with --lr-schedule cosine")));
  EXPECT_THAT(problems_of({.final_rate = 0.1}), HasSubstr("--lr-final: cannot be combined with"));
  EXPECT_THAT(problems_of({.decay = 0.1}), HasSubstr("--lr-decay: cannot be combined with"));
  EXPECT_THAT(problems_of({.warmup = 4}), HasSubstr("longer than the training of 3"));
  EXPECT_THAT(problems_of({.schedule = "cosine", .final_rate = 0.6}),
              HasSubstr("above the learning rate of 0.5"));
}

// All ranks work with what the first one made of the options.
TEST(Rates, TravelWithTheJob) {
  TrainJob job = job_of();
  job.sample = Shape{1, 1, 1};
  job.optimizer.schedule = {.rule = RateRule::polynomial,
                            .warmup = 1.5,
                            .decay = 0.3,
                            .milestones = {1, 2.5},
                            .every = 0.1,
                            .power = 2.5,
                            .final_rate = 1e-5,
                            .length = 60.1,
                            .shift = -0.7};
  job.optimizer.clipping = {.max_norm = 0.7, .scope = ClipScope::wave};
  job.label_smoothing = 0.1;
  job.target_accuracy = 0.9;
  test::expect_travels(job);
}

// By hand: U = Nm + (N - 1)(2 Nm - 1), and 0.01 (5 / U)^1.5 to two digits.
TEST(UsualTraining, FallsWithTheUpdatesThatDoNotSeeEachOther) {
  const auto of = [](const std::string& system, int in_flight, int workers) {
    Plan plan = job_of().plan;
    plan.system = system;
    plan.in_flight = in_flight;
    plan.virtual_workers.resize(static_cast<std::size_t>(workers), plan.virtual_workers.front());
    return usual_training(plan);
  };
  EXPECT_EQ(of("hetpipe", 2, 2).unseen_updates, 5);
  EXPECT_EQ(of("hetpipe", 2, 2).rate, 0.01);
  EXPECT_FALSE(of("hetpipe", 2, 2).lowered());
  EXPECT_EQ(of("hetpipe", 6, 3).unseen_updates, 28);
  EXPECT_EQ(of("hetpipe", 6, 3).rate, 0.00075);
  EXPECT_TRUE(of("hetpipe", 6, 3).lowered());
  EXPECT_EQ(of("hetpipe", 4, 1).rate, 0.01);  // its own four
  EXPECT_EQ(of("hetpipe", 1, 8).rate, 0.0049);
  EXPECT_EQ(of("asp", 6, 3).rate, 0.00075);
  EXPECT_EQ(of("dapple", 6, 3).rate, 0.01);  // one sum of all
}

TEST(UsualTraining, OfOtherOptimizers) {
  Plan plan = job_of().plan;
  plan.in_flight = 6;
  plan.optimizer = "sgd";
  EXPECT_EQ(usual_training(plan).rate, 0.01);
  plan.optimizer = "adamw";
  EXPECT_EQ(usual_training(plan).rate, 0.001);
  EXPECT_FALSE(usual_training(plan).lowered());
  plan.system = "xpipe";
  plan.optimizer = "adam";
  EXPECT_EQ(usual_training(plan).rate, 0.001);
  EXPECT_EQ(usual_training(plan).beta2, 0.999);
  EXPECT_EQ(usual_training(plan).damping, 0);
  plan.optimizer = "rmsprop";
  EXPECT_EQ(usual_training(plan).rate, 0.001);
  EXPECT_EQ(usual_training(plan).alpha, 0.99);
  EXPECT_EQ(usual_training(plan).damping, 0);
}

// Adam damps its steps wherever weights are not predicted: in Fashion-MNIST's first epoch a serial
// ResNet-8 ends at 90.2 % with it and at 89.2 with the best of the others, and 512 samples that are
// summed at 89.1 and 83.7 (benchmarks/results/2026-11-28-samples-to-target.md).
TEST(UsualTraining, OfDampedSteps) {
  Plan plan = job_of().plan;
  plan.optimizer = "adam";
  for (const char* system : {"hetpipe", "ssp", "asp"}) {
    plan.system = system;
    EXPECT_EQ(usual_optimizer(composition(plan)), "adam");
    for (const char* optimizer : {"adam", "rmsprop", "muon"}) {
      EXPECT_EQ(usual_scale(composition(plan), optimizer), "root");
    }
    EXPECT_EQ(usual_scale(composition(plan), "adamw"), "sum");
    EXPECT_EQ(updates_of(plan), Updates::damped);
    const UsualTraining usual = usual_training(plan);
    EXPECT_TRUE(usual.damped);
    const RateOptions rates = with_usual({}, usual, 5);
    EXPECT_EQ(rates.schedule, "polynomial");
    EXPECT_EQ(rates.warmup, 0.5);
    const RateOptions given = with_usual({.schedule = "constant", .warmup = 0}, usual, 5);
    EXPECT_EQ(given.schedule, "constant");
    EXPECT_EQ(given.warmup, 0);
  }
  const UsualTraining of_adam = usual_training(plan);
  EXPECT_EQ(of_adam.rate, 0.0075);
  EXPECT_EQ(of_adam.beta1, 0.8);
  EXPECT_EQ(of_adam.damping, 0.95);
  EXPECT_EQ(of_adam.damped_directions, kUsualDirections);
  plan.optimizer = "rmsprop";
  EXPECT_EQ(usual_training(plan).rate, 0.0025);
  EXPECT_EQ(usual_training(plan).damping, 0.9);
  EXPECT_EQ(updates_of(plan), Updates::plain);
  plan.optimizer = "muon";
  EXPECT_EQ(usual_training(plan).momentum, 0.8);
  EXPECT_EQ(usual_training(plan).weight_decay, 0);
  EXPECT_EQ(updates_of(plan), Updates::orthogonal);
  plan.optimizer = "adam";
  plan.sync = "outer";
  EXPECT_EQ(usual_training(plan).rate, 0.0075);
  EXPECT_EQ(usual_scale(composition(plan), "adam"), "mean");
  plan.sync.clear();
  plan.weights = "predicted";  // makes up for what a minibatch misses
  EXPECT_FALSE(usual_training(plan).damped);
  EXPECT_EQ(updates_of(plan), Updates::plain);
  EXPECT_EQ(usual_optimizer(composition(plan)), "sgd-momentum");
  for (const System& system : systems()) {
    const bool predicts = system.name == "spectrain" || system.name == "xpipe";
    EXPECT_EQ(usual_optimizer(system), predicts ? "sgd-momentum" : "adam") << system.name;
  }
}

// By hand: of 32 samples .0075, of n times as many that are summed root(n) times that, four times
// at most. The best of the rates tried with 256 and 512 samples were .015 and .03.
TEST(UsualTraining, StepsOfSumsGrowWithTheRootOfTheirSamples) {
  const auto rate = [](const std::string& optimizer, int minibatch, int workers) {
    Plan plan = job_of().plan;
    plan.system = "data-parallel";
    plan.optimizer = optimizer;
    plan.minibatch = minibatch;
    plan.virtual_workers.assign(static_cast<std::size_t>(workers), plan.virtual_workers.front());
    return usual_training(plan).rate;
  };
  EXPECT_EQ(rate("adam", 32, 1), 0.0075);
  EXPECT_EQ(rate("adam", 16, 1), 0.0075);
  EXPECT_EQ(rate("adam", 32, 4), 0.015);
  EXPECT_EQ(rate("adam", 256, 1), 0.021);
  EXPECT_EQ(rate("adam", 512, 1), 0.03);
  EXPECT_EQ(rate("adam", 512, 16), 0.03);
  EXPECT_EQ(rate("rmsprop", 512, 1), 0.01);
  EXPECT_EQ(rate("muon", 128, 4), 0.04);
  EXPECT_EQ(rate("sgd-momentum", 512, 1), 0.01);
}

// The servers' optimizer makes a step of a wave of all virtual workers.
TEST(UsualTraining, StepsOfServersGrowWithTheWave) {
  Plan plan = job_of().plan;
  plan.system = "hetpipe";
  plan.sync = "server-step";
  plan.minibatch = 32;
  plan.server.emplace();
  plan.virtual_workers.assign(2, plan.virtual_workers.front());
  plan.optimizer = "adam";
  plan.in_flight = 1;
  EXPECT_EQ(usual_training(plan).rate, 0.011);
  plan.in_flight = 4;
  EXPECT_EQ(usual_training(plan).rate, 0.021);
  plan.optimizer = "sgd-momentum";
  EXPECT_EQ(usual_training(plan).rate, 0.01);
}

}  // namespace training_rates_test
}  // namespace hetpipe
