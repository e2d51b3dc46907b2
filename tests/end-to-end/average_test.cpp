// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "runtime/training/checkpoint.h"
#include "tests/end-to-end/training.h"

// The moving average of the weights, at the servers and where there are none: of every label, from
// the serial program's weights; evaluated, stored and continued.
namespace hetpipe {
namespace average_test {

constexpr double kDecay = 0.75;

Training averaged(int distance) {
  Training training{.model = "lenet-bn",
                    .samples = 150,
                    .workers = {{8, {4, 9}}, {5, {6}}},
                    .in_flight = 2,
                    .distance = distance,
                    .servers = 2};
  training.ema = kDecay;
  return training;
}

// By label, from `first`, where it is `start`.
std::map<Label, Floats> averages(const std::map<Label, SerialState>& at, Label first,
                                 Floats start) {
  std::map<Label, Floats> result{{first, start}};
  for (const auto& [label, state] : at) {
    if (label <= first) continue;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const float kept = static_cast<float>(kDecay) * start[i];
      start[i] = kept + static_cast<float>(1 - kDecay) * state.weights[i];
    }
    result[label] = start;
  }
  return result;
}

void expect_averages(const Trained& trained, const std::map<Label, Floats>& expected,
                     const Model& model) {
  for (const auto& [label, checkpoint] : trained.checkpoints) {
    const Floats average = average_of(checkpoint, model);
    EXPECT_TRUE(average == expected.at(label)) << "label " << label;
    EXPECT_FALSE(average == state_of(checkpoint, model).weights) << "label " << label;
  }
}

TEST(Average, IsOfEveryLabelAndEvaluated) {
  for (const int distance : {0, 2}) {
    for (const std::string pull : {"bound", "newest"}) {
      for (const bool hosted : {false, true}) {
        SCOPED_TRACE(format("D = %d, %s, hosted %d", distance, pull.c_str(), hosted));
        Training training = averaged(distance);
        training.pull = pull;
        training.hosted = hosted;
        training.test_samples = 37;
        training.evaluate_every = 1;
        const Bench bench(training);
        const Trained trained = bench.train();
        const auto labels = trained.labels();
        const SerialWsp::Result serial = bench.serial(std::nullopt, [&](int worker, Wave wave) {
          return labels.at({worker, (wave + 1) * training.in_flight - 1});
        });
        expect_same(trained, serial, bench.model());  // training does not know of the average
        const auto expected = averages(serial.at, 0, serial.at.at(0).weights);
        expect_averages(trained, expected, bench.model());
        const auto losses = trained.metric("test_loss");
        EXPECT_EQ(static_cast<Label>(losses.size()), serial.label - 1 - distance);
        for (const MetricPoint& point : losses) {
          SerialState state = serial.at.at(point.wave);
          const auto loss = [&] {
            return evaluate_serially(bench.model(), bench.device(), bench.test_data(), state, 37)
                       .loss_sum /
                   37;
          };
          EXPECT_GT(std::abs(point.value - loss()), 1e-4 * point.value);
          state.weights = expected.at(point.wave);
          EXPECT_NEAR(point.value, loss(), 1e-5 * point.value);
        }
        EXPECT_NE(trained.said.find("(average of the weights): test loss"), std::string::npos);
      }
    }
  }
}

// Under another plan the average goes on from what the checkpoint has; where it has none, from the
// weights.
TEST(Average, ContinuesOnAnotherPlan) {
  const Trained before = Bench(averaged(0)).train();
  From from{before.checkpoints.at(3)};
  Training other = averaged(1);
  other.workers = {{8, {7}}, {5, {}}};
  other.servers = 1;
  const Bench bench(other);
  for (const bool has_one : {true, false}) {
    SCOPED_TRACE(has_one);
    if (!has_one) from.checkpoint.slots.erase(kAverageSlot);
    const Floats start = has_one ? average_of(from.checkpoint, bench.model())
                                 : state_of(from.checkpoint, bench.model()).weights;
    const SerialWsp::Result serial = bench.serial(from);
    const Trained trained = bench.train(from);
    expect_same(trained, serial, bench.model());
    expect_averages(trained, averages(serial.at, 3, start), bench.model());
  }
}

struct Composed {
  std::string system, schedule, weights;
  int in_flight, micro_batches;
};

// Every system without parameter servers, and what differs in which updates a stage keeps back.
const std::vector<Composed>& without_servers() {
  static const std::vector<Composed> all{{"gpipe", "", "", 1, 4},
                                         {"pipedream-flush", "", "", 1, 3},
                                         {"dapple", "", "", 1, 4},
                                         {"zero-bubble", "", "", 1, 4},
                                         {"data-parallel", "", "", 1, 2},
                                         {"pipedream", "", "", 3, 1},
                                         {"pipedream", "", "vertical-sync", 3, 1},
                                         {"pipedream-2bw", "", "", 3, 1},
                                         {"vanilla", "", "", 3, 2},
                                         {"spectrain", "", "", 3, 1},
                                         {"xpipe", "", "", 2, 2},
                                         {"timeprest", "", "", 2, 2},
                                         {"pipedream-flush", "interleaved-1f1b", "", 1, 4}};
  return all;
}

Training without_servers(const Composed& of, bool pooled) {
  Training training{.model = "lenet-bn", .sample = {6, 6, 1}, .classes = 3, .samples = 120};
  training.system = of.system;
  training.schedule = of.schedule;
  training.weights = of.weights;
  training.in_flight = of.in_flight;
  training.micro_batches = of.micro_batches;
  training.ema = kDecay;
  training.test_samples = 37;
  training.evaluate_every = 1;
  if (of.system == "data-parallel") {
    training.workers = {{12}};
    training.workers[0].shares = {{4, 2}};
  } else if (of.schedule == "interleaved-1f1b") {
    training.chunks = 2;
    training.workers = {{12, {3, 6, 10}}};
  } else {
    training.workers = {{12, {4, 9}}};
    if (pooled) training.workers.push_back({24, {7}});
  }
  return training;
}

// Every label's, against the serial program; evaluations against those with its weights.
void expect_kept_by_stages(const Bench& bench) {
  const Trained trained = bench.train();
  const SerialSystem::Result serial = bench.serial_system();
  expect_same(trained, serial, bench.model());  // training does not know of the average
  const auto expected = averages(serial.at, 0, serial.at.at(0).weights);
  ASSERT_GT(trained.checkpoints.size(), 1u);
  expect_averages(trained, expected, bench.model());
  const auto losses = trained.metric("test_loss");
  ASSERT_FALSE(losses.empty());
  for (const MetricPoint& point : losses) {
    SerialState state = serial.at.at(point.wave);
    state.weights = expected.at(point.wave);
    const double loss =
        evaluate_serially(bench.model(), bench.device(), bench.test_data(), state, 37).loss_sum /
        37;
    EXPECT_NEAR(point.value, loss, 1e-5 * point.value) << "label " << point.wave;
  }
  EXPECT_NE(trained.said.find("(average of the weights): test loss"), std::string::npos);
}

TEST(Average, IsKeptByTheStagesOfEverySystem) {
  for (const Composed& of : without_servers()) {
    for (const bool pooled : {false, true}) {
      SCOPED_TRACE(of.system + " " + of.schedule + of.weights + (pooled ? " pooled" : ""));
      const Bench bench(without_servers(of, pooled));
      if (!pooled || !bench.why_not_played()) expect_kept_by_stages(bench);
    }
  }
}

// Evaluated with the owner's average in the stage that uses its weight.
TEST(Average, IsOfTiedWeightsToo) {
  for (const Composed& of : {Composed{"gpipe", "", "", 1, 4}, Composed{"vanilla", "", "", 3, 2}}) {
    SCOPED_TRACE(of.system);
    Training training = without_servers(of, false);
    training.model = "bert-tiny";
    training.sample = {3};
    training.workers = {{12, {9, 20}}};
    expect_kept_by_stages(Bench(training));
  }
}

// A flushed pipeline continues bit for bit, and so does the average: also under another cut.
TEST(Average, ContinuesWithoutServers) {
  Training training = without_servers({"gpipe", "", "", 1, 4}, false);
  training.epochs = 2;
  const Bench whole(training);
  const Trained uninterrupted = whole.train();
  for (const std::vector<int>& cut : {std::vector<int>{4, 9}, std::vector<int>{7}}) {
    training.workers = {{12, cut}};
    const Bench bench(training);
    const From from{uninterrupted.checkpoints.at(5)};
    const Trained resumed = bench.train(from);
    ASSERT_EQ(resumed.end(), uninterrupted.end());
    for (const auto& [label, checkpoint] : resumed.checkpoints) {
      EXPECT_TRUE(average_of(checkpoint, bench.model()) ==
                  average_of(uninterrupted.checkpoints.at(label), bench.model()))
          << "label " << label;
    }
    EXPECT_FALSE(average_of(resumed.checkpoints.at(6), bench.model()) ==
                 average_of(from.checkpoint, bench.model()));
  }
}

// From servers to none, and back: the average is the model's, whoever keeps it.
TEST(Average, MovesBetweenServersAndStages) {
  const Composed gpipe{"gpipe", "", "", 1, 4};
  Training servers = averaged(0);
  servers.model = "lenet-bn";
  servers.sample = {6, 6, 1};
  servers.classes = 3;
  servers.samples = 120;
  Training none = without_servers(gpipe, false);
  none.test_samples = 0;
  none.evaluate_every = 0;
  for (const bool to_none : {true, false}) {
    SCOPED_TRACE(to_none);
    const Trained before = Bench(to_none ? servers : none).train();
    Training then = to_none ? none : servers;
    then.epochs = 2;
    const Bench bench(then);
    const From from{before.checkpoints.rbegin()->second};
    const Trained trained = bench.train(from);
    const Label first = from.checkpoint.label;
    // One step by hand, from what the checkpoints have.
    Floats expected = average_of(from.checkpoint, bench.model());
    const Checkpoint& next = trained.checkpoints.at(first + 1);
    const Floats weights = state_of(next, bench.model()).weights;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float kept = static_cast<float>(kDecay) * expected[i];
      expected[i] = kept + static_cast<float>(1 - kDecay) * weights[i];
    }
    EXPECT_TRUE(average_of(next, bench.model()) == expected);
  }
}

TEST(Average, IsNotThereUnlessAskedFor) {
  Training training = averaged(0);
  training.ema = 0;
  const Trained trained = Bench(training).train();
  EXPECT_FALSE(trained.checkpoints.at(trained.end()).slots.contains(kAverageSlot));
}

}  // namespace average_test
}  // namespace hetpipe
