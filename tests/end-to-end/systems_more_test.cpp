// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/generate.h"
#include "tests/end-to-end/serial_cases.h"

// What else must not depend on who trains: evaluations change nothing, two runs are one, a run goes
// on where another one stopped. Skipped where training does not play the system yet.
namespace hetpipe {
namespace systems_more_test {

struct Small {
  Composed of;
  int in_flight, micro_batches;
};

void PrintTo(const Small& one, std::ostream* out) { *out << one.of.system; }

class MoreOfSystems : public ::testing::TestWithParam<Small> {
 protected:
  // Two virtual workers, batch norm, a replicated stage.
  Training training() const {
    const Small& small = GetParam();
    const int micro_batch = 12 / small.micro_batches;
    Training training =
        composed_training(small.of, {{12, {4, 9}}, {12, {7}, {{micro_batch - 1, 1}, {}}}},
                          small.in_flight, small.micro_batches);
    training.model = "lenet-bn";
    training.sample = {6, 6, 1};
    training.device = "cpu";
    training.samples = 145;
    return training;
  }
  bool flushes() const {
    Plan plan;
    plan.system = GetParam().of.system;
    return traits(composition(plan).schedule).has_flush;
  }
};

TEST_P(MoreOfSystems, EvaluationsTouchNothing) {
  Training evaluated = training();
  evaluated.test_samples = 29;
  evaluated.evaluate_every = 1;
  const Bench bench(evaluated);
  if (const auto why = bench.why_not_played()) GTEST_SKIP() << "not played yet: " << *why;
  const Trained trained = bench.train();
  const SerialSystem::Result serial = bench.serial_system();
  expect_same(trained, serial, bench.model(), StatisticsOf::last_label);
  const auto losses = trained.metric("test_loss");
  const auto accuracies = trained.metric("test_accuracy");
  ASSERT_FALSE(losses.empty());
  ASSERT_EQ(losses.size(), accuracies.size());
  EXPECT_EQ(losses.back().wave, serial.label);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (losses[i].wave != serial.label && !flushes()) continue;  // statistics of which moment?
    const SerialEvaluation expected = evaluate_serially(
        bench.model(), bench.device(), bench.test_data(), serial.at.at(losses[i].wave), 29);
    EXPECT_NEAR(losses[i].value, expected.loss_sum / 29, 1e-5 * losses[i].value);
    EXPECT_EQ(accuracies[i].value, static_cast<double>(expected.correct) / 29);
  }
}

TEST_P(MoreOfSystems, TwiceTheSame) {
  const Bench bench(training());
  if (const auto why = bench.why_not_played()) GTEST_SKIP() << "not played yet: " << *why;
  expect_same(bench.train(), bench.train(), bench.model());
}

INSTANTIATE_TEST_SUITE_P(All, MoreOfSystems,
                         ::testing::Values(Small{{"hetpipe", "", "", ""}, 2, 1},
                                           Small{{"dapple", "", "", ""}, 2, 4},
                                           Small{{"zero-bubble", "", "", ""}, 1, 4},
                                           Small{{"pipedream", "", "", ""}, 3, 1},
                                           Small{{"spectrain", "", "", ""}, 3, 2},
                                           Small{{"xpipe", "", "", ""}, 2, 2},
                                           Small{{"timeprest", "", "", ""}, 2, 3}),
                         [](const auto& param) {
                           std::string name = param.param.of.system;
                           std::erase(name, '-');
                           return name;
                         });

// A label of a pipeline that drains is a moment without anything in flight: going on from it is as
// if the run had not stopped, in weights and optimizer state. (Running statistics are averaged at a
// label.)
TEST(FlushingSystems, ResumeAfterAnyWave) {
  std::string not_played;
  for (const std::string system : {"gpipe", "dapple", "zero-bubble", "data-parallel"}) {
    SCOPED_TRACE(system);
    const bool flat = system == "data-parallel";
    const std::vector<int> cut = flat ? std::vector<int>{} : std::vector<int>{4, 9};
    Training training = composed_training({system, "", "", ""}, {{12, cut}, {8, cut}}, 2, 4);
    training.model = "lenet-bn";
    training.samples = 130;
    const Bench bench(training);
    if (const auto why = bench.why_not_played()) {
      not_played += system + ": " + *why + "\n";
      continue;
    }
    const Trained whole = bench.train();
    for (const auto& [label, checkpoint] : whole.checkpoints) {
      if (label == whole.end()) continue;
      const Trained rest = bench.train(From{checkpoint, false});
      SerialState expected = state_of(whole.checkpoints.at(whole.end()), bench.model());
      const SerialState got = state_of(rest.checkpoints.at(whole.end()), bench.model());
      expected.statistics = got.statistics;
      expect_same(got, expected, bench.model(), label);
    }
  }
  if (!not_played.empty()) GTEST_SKIP() << "not played yet: " << not_played;
}

// Labels that follow from the moment: with those that the run had, the serial program comes to its
// weights.
TEST(ServerSystems, ReplayTheirLabels) {
  std::string not_played;
  for (const std::string system : {"hetpipe", "ssp", "asp"}) {
    SCOPED_TRACE(system);
    const std::vector<int> cut = system == "hetpipe" ? std::vector<int>{3, 5} : std::vector<int>{};
    Training training = composed_training({system, "", "", ""}, {{8, cut}, {6}, {4}}, 2);
    training.pull = "newest";
    training.distance = 1;
    training.samples = 170;
    const Bench bench(training);
    if (const auto why = bench.why_not_played()) {
      not_played += system + ": " + *why + "\n";
      continue;
    }
    const Trained trained = bench.train();
    const auto labels = trained.labels();
    const SerialSystem::Result serial = bench.serial_system([&](int worker, Wave wave) {
      return labels.at({worker, 2 * wave + 1});
    });
    expect_same(trained, serial, bench.model());
  }
  if (!not_played.empty()) GTEST_SKIP() << "not played yet: " << not_played;
}

}  // namespace systems_more_test
}  // namespace hetpipe
