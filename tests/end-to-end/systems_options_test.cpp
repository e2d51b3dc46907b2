// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <utility>

#include "base/text.h"
#include "partitioner/plan/system.h"
#include "runtime/model/zoo.h"
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

const std::string kExported = std::string(HETPIPE_SOURCE_DIR) + "/tests/models/";
bool is_exported(const std::string& model) { return model.starts_with(kExported); }

struct TiedCase {
  std::string system, model;
  int stages;
};
void PrintTo(const TiedCase& one, std::ostream* out) {
  *out << one.system << " " << one.model << " in " << one.stages;
}

std::vector<TiedCase> tied_cases() {
  std::vector<TiedCase> cases;
  for (const System& system : systems()) {
    for (const int stages : {2, 3, 4}) {
      cases.push_back({system.name, "gpt2-tiny", stages});
      // Those of three stages and more virtual workers are in systems_test.cpp.
      if (stages != 3) cases.push_back({system.name, "bert-tiny", stages});
      // Exported ones, which draw in attention too.
      cases.push_back({system.name, kExported + (stages == 3 ? "bert" : "gpt2"), stages});
    }
  }
  return cases;
}

class TiedAcross : public ::testing::TestWithParam<TiedCase> {};

// The first layer's weight is the last one's too, whatever lies between: every system, whose
// one-stage ones have one minibatch in flight where they are cut.
TEST_P(TiedAcross, TrainsLikeTheSerialProgram) {
  const auto& [system, name, stages] = GetParam();
  const Shape sample = is_exported(name) ? Shape{12} : Shape{3};
  const int classes = is_exported(name) ? 40 : 5;
  const int layers = make_model(name, sample, classes).layer_count();
  std::vector<int> cut;
  for (int k = 1; k < stages; ++k) cut.push_back(1 + k * (layers - 3) / stages);
  Plan plan;
  plan.system = system;
  const System rules = composition(plan);
  const bool one_version = traits(rules.weights).one_version && !traits(rules.schedule).has_flush;
  const bool slices =
      system == "xpipe" || system == "timeprest" || traits(rules.schedule).has_flush;
  Training training =
      texts({system, "", "", ""}, {{12, cut}}, one_version ? 1 : stages, slices ? 2 : 1);
  training.model = name;
  training.sample = sample;
  training.classes = classes;
  training.samples = 12 * 9 + 5;
  if (stages == 4) training.optimizer = {.name = "adam", .rate = 0.002f};
  training.optimizer.weight_decay = 0.01f;
  // Which labels the second of two asynchronous virtual workers gets is not known before.
  if (system != "asp") training.workers.push_back({8, stages == 4 ? std::vector{9, 20} : cut});
  expect_trains_like_its_system(training);
}

INSTANTIATE_TEST_SUITE_P(All, TiedAcross, ::testing::ValuesIn(tied_cases()), [](const auto& param) {
  const std::string& model = param.param.model;
  std::string name = param.param.system +
                     (is_exported(model) ? "Exported" + model.substr(kExported.size()) : model) +
                     std::to_string(param.param.stages);
  std::erase(name, '-');
  return name;
});

// Where all stages' passes see the same updates, the cut says only who computes what.
TEST(TiedWeights, DoNotDependOnTheCut) {
  for (const auto& [system, micro_batches] :
       {std::pair("hetpipe", 1), {"hetpipe", 2}, {"pipedream-2bw", 1}, {"gpipe", 2}}) {
    SCOPED_TRACE(format("%s, M = %d", system, micro_batches));
    Training training = texts({system, "", "", ""}, {{12}}, 4, micro_batches);
    const Bench bench(training);
    const Trained whole = bench.train();
    for (const std::vector<int>& cut : {std::vector{14}, {9, 20}, {27}, {1, 14, 26}}) {
      training.workers[0].stage_ends = cut;
      expect_same(Bench(training).train(), whole, bench.model());
    }
  }
}

// A checkpoint holds the owner's weight and optimizer state; under waves, where what it holds is
// exact, a continuation is bit-identical with the pipeline full.
TEST(TiedWeights, ResumeFromACheckpoint) {
  for (const std::string system : {"dapple", "hetpipe"}) {
    SCOPED_TRACE(system);
    Training training = texts({system, "", "", ""}, {{12, {9, 20}}, {6, {9, 20}}}, 2, 2);
    if (system == "dapple") training.workers[0].shares = {{4, 2}};
    const Bench bench(training);
    const Trained whole = bench.train();
    ASSERT_GT(whole.end(), 2);
    for (const auto& [label, checkpoint] : whole.checkpoints) {
      if (label == whole.end()) continue;
      const Trained rest = bench.train(From{checkpoint, system == "hetpipe"});
      expect_same(state_of(rest.checkpoints.at(whole.end()), bench.model()),
                  state_of(whole.checkpoints.at(whole.end()), bench.model()), bench.model(), label);
    }
  }
}

// More replicas before, more behind.
TEST(TiedWeights, AddUpOverReplicas) {
  for (const std::string system : {"hetpipe", "pipedream", "gpipe"}) {
    SCOPED_TRACE(system);
    Training training = texts({system, "", "", ""}, {{12, {9, 20}}}, 3, 1);
    training.workers[0].shares = {{5, 4, 3}, {}, {7, 5}};
    expect_trains_like_its_system(training);
    training.workers[0].shares = {{7, 5}, {6, 6}, {5, 4, 3}};
    expect_trains_like_its_system(training);
  }
}

// The owner's stage clips the gradient of all uses.
TEST(TiedWeights, AreClippedWithTheirOwnersStage) {
  for (const auto clips : {SerialOptimizer::Clips::stage, SerialOptimizer::Clips::wave}) {
    Training training = texts({"hetpipe", "", "", ""}, {{12, {9, 20}}, {8, {14}}}, 3);
    training.optimizer.clip_norm = 0.3;
    training.optimizer.clips = clips;
    const Bench bench(training);
    const Trained clipped = bench.train();
    expect_same(clipped, bench.serial(), bench.model());
    training.optimizer.clip_norm = 0;
    EXPECT_FALSE(same_weights(clipped, Bench(training).train()));
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

// The snapshot that is evaluated is pulled by the stage of the tied weight's owner.
TEST(Texts, AreEvaluatedWithTiedWeightsApart) {
  for (const std::string system : {"hetpipe", "pipedream"}) {
    SCOPED_TRACE(system);
    Training training = texts({system, "", "", ""}, {{12, {9, 20}}, {12, {14}}}, 3);
    training.samples = 2 * 12 * 3 * 3;  // whole waves
    expect_evaluated_by_labels(training, 1);
  }
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
    Training training = texts({system, "", "", ""}, {{12, {9, 20}}, {8, {9, 20}}}, 2, 2);
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

TEST(MixedSamples, TrainLikeTheSerialProgram) {
  for (const std::string system : {"dapple", "pipedream", "hetpipe", "data-parallel"}) {
    for (const MixRules mixes : {MixRules{0.4, 0}, MixRules{0, 1}, MixRules{0.8, 0.5}}) {
      SCOPED_TRACE(testing::Message()
                   << system << " " << mixes.mixup_alpha << " " << mixes.cutmix_alpha);
      Training training = normed({system, "", "", ""});
      if (system == "data-parallel") {
        for (Training::Worker& worker : training.workers) worker.stage_ends = {};
        training.workers[0].shares = {};
        training.micro_batches = training.in_flight = 1;
      }
      training.pixels = mixes.mixup_alpha < 0.5;
      training.label_smoothing = mixes.mixup_alpha > 0 ? 0 : 0.1f;
      training.mixes = mixes;
      training.samples = 110;
      training.epochs = 1.5;
      expect_trains_like_its_system(training);
      const Trained mixed = Bench(training).train();
      training.mixes = {};
      EXPECT_FALSE(same_weights(mixed, Bench(training).train()));
    }
  }
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
