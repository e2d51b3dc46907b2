// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/end-to-end/serial_cases.h"

// The serial programs of all systems against simpler ones, against each other, and against the
// tables of the papers.
namespace hetpipe {
namespace serial_systems_test {

Training small(const Composed& of, std::vector<Training::Worker> workers, int in_flight = 1,
               int micro_batches = 1) {
  Training training = composed_training(of, std::move(workers), in_flight, micro_batches);
  training.optimizer.weight_decay = 0.01f;
  return training;
}

void expect_same_results(const SerialWsp::Result& one, const SerialWsp::Result& other,
                         const Model& model) {
  ASSERT_EQ(one.label, other.label);
  for (const auto& [label, state] : one.at) {
    expect_same(state, other.at.at(label), model, label);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(one.losses, other.losses);
}

// Plain training: what a beginner would write.
void expect_plain(const Training& training) {
  const Bench bench(training);
  const SerialSystem program = bench.serial_program();
  const SerialSystem::Result result = program.run();
  Whole whole{program};
  Floats weights = whole.model.parameters();
  SerialSteps steps(training.optimizer, weights.size());
  ASSERT_EQ(result.label, program.sampler.count(0));
  for (Minibatch p = 0; p < result.label; ++p) {
    add(weights, steps.delta(whole.gradient(weights, whole.batch(p)), weights, p + 1, p));
    expect_same({weights, whole.model.statistics(), steps.slots()}, result.at.at(p + 1),
                bench.model(), p + 1);
    if (::testing::Test::HasFailure()) return;
  }
}

const std::vector<Composed>& compositions_that_are_plain() {
  static const std::vector<Composed> all{
      {"gpipe", "", "", ""},
      {"pipedream-flush", "", "", ""},
      {"dapple", "", "", ""},
      {"dapple", "dapple-pb", "", ""},
      {"zero-bubble", "", "", ""},
      {"zero-bubble", "zb-h2", "", ""},
      {"data-parallel", "", "", ""},
      {"pipedream", "", "", ""},
      {"pipedream", "", "vertical-sync", ""},
      {"vanilla", "", "", ""},
      {"spectrain", "", "", ""},
      {"hetpipe", "", "", ""},
      {"hetpipe", "", "newest", ""},
      {"hetpipe", "", "predicted", ""},
      {"ssp", "", "", ""},
  };
  return all;
}

// One stage, one minibatch in flight: every rule comes to serial SGD.
TEST(SerialSystems, OneStageIsPlainTraining) {
  std::vector<Composed> all = compositions_that_are_plain();
  for (const Composed& more : std::vector<Composed>{{"xpipe", "", "", ""},
                                                    {"xpipe", "", "stash", ""},
                                                    {"xpipe", "", "newest", ""},
                                                    {"xpipe", "", "", "wsp"},
                                                    {"timeprest", "", "", ""},
                                                    {"timeprest", "", "mixed", ""},
                                                    {"timeprest", "", "", "wsp"}}) {
    all.push_back(more);
  }
  for (const Composed& of : all) {
    for (const std::string optimizer : {"sgd", "sgd-momentum", "adam"}) {
      SCOPED_TRACE(of.system + " " + of.schedule + " " + of.weights + " " + of.sync + " " +
                   optimizer);
      Training training = small(of, {{8, {}}});
      training.optimizer.name = optimizer;
      if (optimizer == "adam") training.optimizer.rate = 0.002f;
      expect_plain(training);
    }
  }
}

TEST(SerialSystems, OneMinibatchInFlightIsPlainTrainingUnderAnyCut) {
  for (const Composed& of : compositions_that_are_plain()) {
    if (of.system == "ssp") continue;  // one stage alone
    SCOPED_TRACE(of.system + " " + of.schedule + " " + of.weights);
    expect_plain(small(of, {{8, {2, 5}}}));
    Training training = small(of, {{6, {4, 9}}});
    training.model = "lenet-bn";
    training.samples = 32;
    expect_plain(training);
  }
}

// A minibatch of 8 as two micro-batches, on two replicas, or on two virtual workers: the same two
// halves of it, summed in the same order. (No layer of mlp mixes samples.)
TEST(SerialSystems, HalvesAreHalvesWhoeverHasThem) {
  for (const Composed& of : std::vector<Composed>{{"gpipe", "", "", ""},
                                                  {"pipedream", "", "", ""},
                                                  {"spectrain", "", "", ""},
                                                  {"vanilla", "", "", ""}}) {
    SCOPED_TRACE(of.system);
    const std::vector<int> cut{3, 5};
    Training micros = small(of, {{8, cut}}, 3, 2);
    Training replicas = small(of, {{8, cut, {{4, 4}, {4, 4}, {4, 4}}}}, 3);
    Training workers = small(of, {{4, cut}, {4, cut}}, 3);
    for (Training* training : {&micros, &replicas, &workers}) training->samples = 64;
    const Bench bench(micros);
    const SerialSystem::Result one = bench.serial_system();
    expect_same_results(one, Bench(replicas).serial_system(), bench.model());
    SerialSystem::Result other = Bench(workers).serial_system();
    other.losses = one.losses;  // dealt out otherwise
    expect_same_results(one, other, bench.model());
  }
}

// A flush makes the order of work irrelevant.
TEST(SerialSystems, PlayedFlushesAreTheSynchronousProgram) {
  for (const std::string schedule :
       {"gpipe", "1f1b-flush", "dapple-pa", "dapple-pb", "interleaved-1f1b", "zb-h1", "zb-h2"}) {
    SCOPED_TRACE(schedule);
    const bool interleaved = schedule == "interleaved-1f1b";
    Training training = small({"gpipe", schedule, "", ""},
                              {{8, {3, 6, 10}, {{1, 1}, {}, {1, 1}, {}}}, {12, {2, 4, 8}}}, 2, 4);
    if (!interleaved) {
      training.workers = {{8, {5, 9}, {{2}, {1, 1}, {}}}, {12, {4}, {{2, 1}, {1, 2}}}};
    }
    training.chunks = interleaved ? 2 : 1;
    training.model = "lenet-bn";
    training.samples = 51;
    const Bench bench(training);
    const SerialSystem program = bench.serial_program();
    expect_same_results(run_synchronous(program), run_played(program), bench.model());
  }
}

// HetPipe's program of tests/end-to-end/serial_wsp.h is another one of the same equations.
TEST(SerialSystems, HetPipeIsHetPipe) {
  for (const int distance : {0, 2}) {
    Training training = small({"hetpipe", "", "", ""}, {{5, {2, 4}}, {9, {}}, {4, {3, 4, 5}}}, 3);
    training.distance = distance;
    training.samples = 150;
    const Bench bench(training);
    expect_same_results(bench.serial(), bench.serial_system(), bench.model());
    training.model = "lenet-bn";
    training.in_flight = 2;
    const Bench other(training);
    expect_same_results(other.serial(), other.serial_system(), other.model());
  }
}

// No rule comes to another one where it should not.
TEST(SerialSystems, SystemsDiffer) {
  const std::vector<Composed> all{{"gpipe", "", "", ""},
                                  {"pipedream", "", "", ""},
                                  {"pipedream", "", "vertical-sync", ""},
                                  {"pipedream-2bw", "", "", ""},
                                  {"vanilla", "", "", ""},
                                  {"spectrain", "", "", ""},
                                  {"xpipe", "", "", ""},
                                  {"xpipe", "", "stash", ""},
                                  {"xpipe", "", "newest", ""},
                                  {"timeprest", "", "", ""},
                                  {"timeprest", "", "mixed", ""}};
  std::vector<Floats> ends;
  for (const Composed& of : all) {
    ends.push_back(Bench(small(of, {{8, {3, 5}}}, 3, 4)).serial_system().end().weights);
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      EXPECT_NE(ends[i], ends.back())
          << of.system << " " << of.weights << ", " << all[i].system << " " << all[i].weights;
    }
  }
}

}  // namespace serial_systems_test
}  // namespace hetpipe
