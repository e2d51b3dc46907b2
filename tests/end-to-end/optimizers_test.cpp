// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <ostream>

#include "base/text.h"
#include "partitioner/plan/system.h"
#include "tests/end-to-end/serial_cases.h"

// AdamW, LAMB, RMSprop and Nesterov's momentum under several systems, with decay for matrices alone
// and rates by groups of layers: the same bits as the serial program of the system.
namespace hetpipe {
namespace optimizers_test {

struct Played {
  Composed of;
  int in_flight, micro_batches;
};
const std::vector<Played>& played() {
  static const std::vector<Played> all{
      {{"hetpipe", "", "", ""}, 3, 1},       {{"pipedream", "", "", ""}, 3, 1},
      {{"pipedream-2bw", "", "", ""}, 3, 1}, {{"dapple", "", "", ""}, 1, 4},
      {{"gpipe", "", "", ""}, 2, 2},         {{"data-parallel", "", "", ""}, 1, 1},
      {{"vanilla", "", "", ""}, 3, 1},       {{"spectrain", "", "", ""}, 3, 1},
      {{"spectrain", "", "", "wsp"}, 3, 1},  {{"xpipe", "", "", ""}, 2, 2},
  };
  return all;
}

SerialOptimizer optimizer_of(const std::string& name) {
  if (name == "nesterov") {
    return {.name = "sgd-momentum", .rate = 0.02f, .weight_decay = 0.01f, .nesterov = true};
  }
  return {.name = name == "damped" ? "adamw" : name,
          .rate = 0.003f,
          .weight_decay = 0.1f,
          .beta1 = 0.8f,
          .beta2 = 0.95f,
          .epsilon = 1e-6f,
          .alpha = 0.95f,
          .nu = name == "adamw" ? 0.7f : 1.0f,
          .damping = name == "damped" ? 0.8f : 0.0f,
          .damped_directions = name == "damped" ? 3 : 1};
}

struct Case {
  Played system;
  std::string optimizer;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.system.of.system << " with " << one.optimizer;
}
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Played& system : played()) {
    for (const char* optimizer : {"adamw", "nesterov", "lamb", "rmsprop", "muon"}) {
      cases.push_back({system, optimizer});
    }
    // Predictions go along the optimizer's state, which is not damped.
    if (system.of.system != "spectrain" && system.of.system != "xpipe") {
      cases.push_back({system, "damped"});
    }
  }
  return cases;
}

// Batch norm, biases and matrices; two virtual workers that differ.
Training training_of(const Case& of) {
  const bool flat = of.system.of.system == "data-parallel";
  Training training = composed_training(of.system.of,
                                        {{12, flat ? std::vector<int>{} : std::vector{4, 9}},
                                         {8, flat ? std::vector<int>{} : std::vector{7}}},
                                        of.system.in_flight, of.system.micro_batches);
  training.model = "lenet-bn";
  training.sample = {6, 6, 1};
  // Its products, as they are defined: oneDNN adds them up in another order.
  training.device = of.optimizer == "muon" ? "reference" : "cpu";
  training.samples = 130;
  training.optimizer = optimizer_of(of.optimizer);
  training.optimizer.vectors_decay = false;
  training.rates = {{"conv1", 0.5}, {"linear*/weight", 1.5}};
  training.optimizer.factor_of = [](const std::string& name) {
    if (name == "conv1/weight" || name == "conv1/bias") return 0.5;
    return name == "linear1/weight" || name == "linear2/weight" ? 1.5 : 1.0;
  };
  return training;
}

class Optimizers : public ::testing::TestWithParam<Case> {};

TEST_P(Optimizers, TrainLikeTheSerialProgram) {
  const Bench bench(training_of(GetParam()));
  ASSERT_EQ(bench.why_not_played(), std::nullopt);
  const SerialSystem::Result serial = bench.serial_system();
  const System rules = composition(bench.job_of().plan);
  const bool moment = !traits(rules.sync).waves() && !traits(rules.schedule).has_flush;
  expect_same(bench.train(), serial, bench.model(),
              moment ? StatisticsOf::last_label : StatisticsOf::every_label);
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, ::testing::ValuesIn(all_cases()), [](const auto& param) {
  const Case& one = param.param;
  std::string name = one.system.of.system + one.system.of.sync + "_" + one.optimizer;
  std::erase(name, '-');
  return name;
});

bool same_weights(const Training& one, const Training& other) {
  return Bench(one).serial_system().end().weights == Bench(other).serial_system().end().weights;
}

// What the serial programs are told makes a difference to them.
TEST(OptimizerChoices, EveryChoiceCounts) {
  for (const std::string name : {"adamw", "nesterov", "lamb", "damped", "rmsprop", "muon"}) {
    SCOPED_TRACE(name);
    const Training training = training_of({played()[3], name});
    EXPECT_TRUE(same_weights(training, training));
    const auto changed = [&](auto&& change) {
      Training other = training;
      change(other.optimizer);
      return !same_weights(training, other);
    };
    EXPECT_TRUE(changed([](SerialOptimizer& o) { o.vectors_decay = true; }));
    EXPECT_TRUE(changed([](SerialOptimizer& o) { o.factor_of = {}; }));
    EXPECT_TRUE(changed([](SerialOptimizer& o) { o.weight_decay = 0; }));
    if (name == "nesterov") {
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.nesterov = false; }));
    } else if (name == "muon") {
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.momentum = 0.8f; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.name = "adamw"; }));
    } else if (name == "rmsprop") {
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.alpha = 0.99f; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.epsilon = 1e-3f; }));
    } else {
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.beta1 = 0.9f; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.beta2 = 0.999f; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.epsilon = 1e-3f; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.name = "adam"; }));
    }
    if (name == "damped") {
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.damping = 0; }));
      EXPECT_TRUE(changed([](SerialOptimizer& o) { o.damped_directions = 2; }));
    }
  }
}

// A parameter's norm is of the whole parameter wherever it lies, and of a tied one once.
TEST(OptimizerChoices, LambDoesNotDependOnTheCut) {
  for (const auto& [system, micro_batches] :
       {std::pair("hetpipe", 1), {"pipedream-2bw", 1}, {"gpipe", 2}}) {
    SCOPED_TRACE(format("%s, M = %d", system, micro_batches));
    Training training = composed_training({system, "", "", ""}, {{12}}, 4, micro_batches);
    training.model = "bert-tiny";
    training.sample = {3};
    training.classes = 5;
    training.device = "cpu";
    training.samples = 90;
    training.optimizer = optimizer_of("lamb");
    const Bench bench(training);
    const Trained whole = bench.train();
    for (const std::vector<int>& cut : {std::vector{14}, {9, 20}, {1, 14, 26}}) {
      training.workers[0].stage_ends = cut;
      expect_same(Bench(training).train(), whole, bench.model());
    }
  }
}

}  // namespace optimizers_test
}  // namespace hetpipe
