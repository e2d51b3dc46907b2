// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "tests/end-to-end/serial_cases.h"

// What a training may ask for beside its system: tied weights across cuts, norms that are clipped
// over all stages, rates that change, smoothed labels, forwards that are computed again.
namespace hetpipe {
namespace systems_options_test {

// bert-tiny: layers 0 (words) and 26 (head) share a weight; 27 is the loss.
Training texts(const Composed& of, std::vector<Training::Worker> workers, int in_flight = 1,
               int micro_batches = 1) {
  Training training = composed_training(of, std::move(workers), in_flight, micro_batches);
  training.model = "bert-tiny";
  training.sample = {3};
  training.classes = 5;
  training.device = "cpu";
  training.samples = 90;
  return training;
}

void expect_trains_like_its_system(const Training& training,
                                   StatisticsOf statistics = StatisticsOf::every_label) {
  const Bench bench(training);
  expect_same(bench.train(), bench.serial_system(), bench.model(), statistics);
}

// At every label: not one weight differs, or some do.
bool same_weights(const Trained& one, const Trained& other) {
  EXPECT_EQ(one.checkpoints.size(), other.checkpoints.size());
  for (const auto& [label, checkpoint] : one.checkpoints) {
    if (!(checkpoint.parameters == other.checkpoints.at(label).parameters)) return false;
  }
  return true;
}

TEST(TiedWeights, StayTogetherWithoutAFlush) {
  for (const std::string system :
       {"hetpipe", "pipedream", "pipedream-2bw", "vanilla", "spectrain", "timeprest"}) {
    SCOPED_TRACE(system);
    const auto job = [&](int cut) {
      return Bench(texts({system, "", "", ""}, {{12, {27}}, {12, {cut}}}, 2, 2)).job_of();
    };
    job(27);
    try {
      job(14);
      ADD_FAILURE() << "a tied weight in two stages that are never flushed";
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("layers words and head share a weight and are in "
                                                 "stages 0 and 1"));
    }
  }
  for (const std::string system : {"gpipe", "dapple", "zero-bubble"}) {
    Bench(texts({system, "", "", ""}, {{12, {14}}}, 1, 2)).job_of();
  }
}

// A checkpoint holds the owner's weight and optimizer state; whoever starts from it has both
// copies.
TEST(TiedWeights, ResumeFromACheckpoint) {
  for (const std::string system : {"dapple", "hetpipe"}) {
    SCOPED_TRACE(system);
    const bool apart = system == "dapple";
    const std::vector<int> cut = apart ? std::vector<int>{9, 20} : std::vector<int>{27};
    Training training = texts({system, "", "", ""}, {{12, cut}, {6, cut}}, 2, 2);
    if (apart) training.workers[0].shares = {{4, 2}};
    const Bench bench(training);
    const Trained whole = bench.train();
    ASSERT_GT(whole.end(), 2);
    for (const auto& [label, checkpoint] : whole.checkpoints) {
      if (label == whole.end()) continue;
      const Trained rest = bench.train(From{checkpoint, !apart});
      expect_same(state_of(rest.checkpoints.at(whole.end()), bench.model()),
                  state_of(whole.checkpoints.at(whole.end()), bench.model()), bench.model(), label);
    }
  }
}

// The accuracy is that of labels, of which a sample has several.
void expect_evaluated_by_labels(Training training, int labels) {
  training.test_samples = 29;
  training.evaluate_every = 1;
  const Bench bench(training);
  const Trained trained = bench.train();
  const SerialSystem::Result serial = bench.serial_system();
  expect_same(trained, serial, bench.model());
  const auto losses = trained.metric("test_loss");
  const auto accuracies = trained.metric("test_accuracy");
  ASSERT_EQ(std::ssize(losses), serial.label);
  ASSERT_EQ(std::ssize(accuracies), serial.label);
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const SerialEvaluation expected = evaluate_serially(
        bench.model(), bench.device(), bench.test_data(), serial.at.at(losses[i].wave), 29);
    EXPECT_NEAR(losses[i].value, expected.loss_sum / 29, 1e-5 * losses[i].value);
    EXPECT_EQ(accuracies[i].value, static_cast<double>(expected.correct) / (29 * labels));
  }
}

// Of three tokens all have a label, or one that is masked.
TEST(Texts, AreEvaluatedByLabels) {
  expect_evaluated_by_labels(texts({"dapple", "", "", ""}, {{12, {9, 20}}, {12, {14}}}, 1, 2), 1);
  Training next = texts({"dapple", "", "", ""}, {{12, {3, 6}}, {12, {4}}}, 1, 2);
  next.model = "gnmt-tiny";
  expect_evaluated_by_labels(next, 3);
}

Training clipped(Training training, double norm) {
  training.optimizer.clip_norm = norm;
  training.optimizer.clips = SerialOptimizer::Clips::global;
  return training;
}

class GlobalClipping : public ::testing::TestWithParam<Composed> {};

// Three stages, replicas, two virtual workers of other cuts, a tied weight in two stages,
// parameters that are longer than the blocks in which squares are added.
TEST_P(GlobalClipping, TrainsLikeTheSerialProgram) {
  const bool chunks = GetParam().schedule == "interleaved-1f1b";
  for (const double norm : {0.2, 2.0}) {
    SCOPED_TRACE(format("norm %g", norm));
    Training training =
        texts(GetParam(), {{12, {9, 20}, {{}, {2, 1}, {}}}, {8, {14, 27}, {{1, 1}}}}, 2, 4);
    if (chunks) {
      training.workers = {{12, {5, 14, 27}, {{2, 1}, {}, {2, 1}, {}}}, {8, {5, 9, 20}}};
      training.chunks = 2;
    }
    training = clipped(training, norm);
    training.optimizer.weight_decay = 0.01f;
    expect_trains_like_its_system(training);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, GlobalClipping,
    ::testing::Values(Composed{"gpipe", "", "", ""}, Composed{"pipedream-flush", "", "", ""},
                      Composed{"dapple", "", "", ""}, Composed{"zero-bubble", "", "", ""},
                      Composed{"zero-bubble", "zb-h2", "", ""},
                      Composed{"pipedream-flush", "interleaved-1f1b", "", ""},
                      Composed{"data-parallel", "", "", ""}, Composed{"gpipe", "", "", "wsp"}),
    [](const auto& param) {
      std::string name = param.param.system + "_" + param.param.schedule + "_" + param.param.sync;
      std::erase(name, '-');
      return name;
    });

TEST(GlobalClipping, DoesNotDependOnTheCut) {
  const auto train = [](std::vector<int> cut, double norm) {
    return Bench(clipped(texts({"gpipe", "", "", ""}, {{12, std::move(cut)}}, 1, 4), norm)).train();
  };
  const Bench bench(texts({"gpipe", "", "", ""}, {{12}}, 1, 4));
  const Trained whole = train({}, 0.2);
  for (const std::vector<int>& cut : {std::vector{14}, {9, 20}, {27}, {5, 14, 26}}) {
    expect_same(train(cut, 0.2), whole, bench.model());
  }
  EXPECT_FALSE(same_weights(train({}, 0), whole));
}

// The rate is that of a virtual worker's own minibatch: of the wave's last one where a wave makes
// one update, of the pass's where weights are predicted.
TEST(ChangingRates, TrainLikeTheSerialProgram) {
  for (const std::string optimizer : {"sgd-momentum", "adam"}) {
    for (const std::string system : {"gpipe", "pipedream", "pipedream-2bw", "spectrain", "xpipe",
                                     "timeprest", "data-parallel"}) {
      SCOPED_TRACE(system + " with " + optimizer);
      const bool flat = system == "data-parallel";
      const std::vector<int> cut = flat ? std::vector<int>{} : std::vector<int>{3, 5};
      Training training = composed_training({system, "", "", ""}, {{12, cut}, {8, cut}}, 3, 2);
      if (system == "pipedream-2bw") training.micro_batches = 1;
      training.samples = 170;
      training.optimizer.name = optimizer;
      training.optimizer.rate = 0.01f;
      training.rate = {.schedule = "polynomial", .power = 2, .final_rate = 0.001};
      training.optimizer.rate_of = [](Minibatch p) {
        const double left = 1 - static_cast<double>(p) / (170.0 / 20);
        return 0.001 + (static_cast<double>(0.01f) - 0.001) * std::pow(left, 2);
      };
      expect_trains_like_its_system(training);
    }
  }
}

TEST(SmoothedLabels, TrainLikeTheSerialProgram) {
  for (const std::string system : {"dapple", "pipedream", "hetpipe"}) {
    SCOPED_TRACE(system);
    const bool apart = system == "dapple";
    const std::vector<int> cut = apart ? std::vector<int>{9, 20} : std::vector<int>{27};
    Training training = texts({system, "", "", ""}, {{12, cut}, {8, cut}}, 2, 2);
    training.label_smoothing = 0.1f;
    expect_trains_like_its_system(training);
    const Trained smoothed = Bench(training).train();
    training.label_smoothing = 0;
    EXPECT_FALSE(same_weights(smoothed, Bench(training).train()));
  }
}

// Batch norm and dropout, several labels, a replicated stage.
Training normed(const Composed& of, int in_flight = 2) {
  Training training =
      composed_training(of, {{12, {4, 9}, {{2, 1}, {}, {}}}, {8, {7}}}, in_flight, 4);
  training.model = "lenet-bn";
  training.sample = {6, 6, 1};
  training.device = "cpu";
  training.samples = 150;
  return training;
}

// A B in two parts, and other orders of F and B, give the same sums.
TEST(ZeroBubble, IsOneForwardOneBackward) {
  const Bench bench(normed({"pipedream-flush", "", "", ""}));
  const Trained plain = bench.train();
  EXPECT_GT(plain.end(), 2);
  for (const std::string schedule : {"zb-h1", "zb-h2"}) {
    SCOPED_TRACE(schedule);
    expect_same(Bench(normed({"zero-bubble", schedule, "", ""})).train(), plain, bench.model());
  }
}

TEST(Recomputation, ChangesNothing) {
  for (const Composed& of : std::vector<Composed>{{"gpipe", "", "", ""},
                                                  {"dapple", "", "", ""},
                                                  {"zero-bubble", "", "", ""},
                                                  {"pipedream", "", "", ""},
                                                  {"pipedream", "", "vertical-sync", ""},
                                                  {"pipedream-2bw", "", "", ""},
                                                  {"timeprest", "", "", ""},
                                                  {"hetpipe", "", "", ""}}) {
    SCOPED_TRACE(of.system + " " + of.weights);
    Training training = normed(of, 3);
    const Bench bench(training);
    const Trained kept = bench.train();
    for (Training::Worker& worker : training.workers) worker.recompute = true;
    expect_same(Bench(training).train(), kept, bench.model());
  }
}

// Where B has other weights than F, another forward would give another gradient.
TEST(Recomputation, IsRefusedWhereItWouldChangeSomething) {
  for (const Composed& of : std::vector<Composed>{{"vanilla", "", "", ""},
                                                  {"spectrain", "", "", ""},
                                                  {"xpipe", "", "", ""},
                                                  {"timeprest", "", "mixed", ""}}) {
    SCOPED_TRACE(of.system);
    Training training = normed(of, 3);
    Bench(training).job_of();
    training.workers[1].recompute = true;
    try {
      Bench(training).job_of();
      ADD_FAILURE() << "a forward that runs again with other weights";
    } catch (const UserError& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("virtual worker 1 stage 0: recompute = true"));
    }
  }
}

}  // namespace systems_options_test
}  // namespace hetpipe
