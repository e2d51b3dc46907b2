// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "tests/end-to-end/serial_place.h"
#include "tests/end-to-end/training.h"

// The serial programs of all systems against simpler ones, against each other, and against the
// tables of the papers.
namespace hetpipe {
namespace {

struct Composed {
  std::string system, schedule, weights, sync;
};

Training small(const Composed& of, std::vector<Training::Worker> workers, int in_flight = 1,
               int micro_batches = 1) {
  Training training{.model = "mlp", .samples = 60, .workers = std::move(workers)};
  training.system = of.system;
  training.schedule = of.schedule;
  training.weights = of.weights;
  training.sync = of.sync;
  training.in_flight = in_flight;
  training.micro_batches = micro_batches;
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

// Samples of minibatch p of the only virtual worker.
struct Whole {
  const SerialSystem& system;
  SerialModel model{system.model, system.device, system.seed};

  Floats gradient(const Floats& weights, Minibatch p, int first, int count, int loss_samples) {
    SerialMicroBatch batch = std::move(micro_batches_of(
        system.data, system.sampler, {system.sampler.samples(0, p).first + first, count}, 1)[0]);
    model.set_parameters(weights);
    model.forward(batch.values.at(kSamples), batch.samples.labels, batch.samples.keys, Mode::train);
    return model.backward(loss_samples);
  }
  Floats gradient(const Floats& weights, Minibatch p) {
    return gradient(weights, p, 0, system.sampler.samples(0, p).count, 0);
  }
};

void add(Floats& to, const Floats& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
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
    add(weights, steps.delta(whole.gradient(weights, p), weights, p + 1));
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

// g = g0 + g1 + ...: micro-batches of one virtual worker; then over virtual workers.
TEST(SerialSystems, AccumulationByHand) {
  Training training = small({"gpipe", "", "", ""}, {{9, {3}}}, 2, 3);
  training.samples = 31;  // the last minibatch has 4 samples: 2, 1, 1
  const Bench bench(training);
  const SerialSystem program = bench.serial_program();
  const SerialSystem::Result result = program.run();
  Whole whole{program};
  Floats weights = whole.model.parameters();
  SerialSteps steps(training.optimizer, weights.size());
  for (Minibatch p = 0; p < 4; ++p) {
    const int n = p < 3 ? 9 : 4;
    const std::vector<int> sizes = p < 3 ? std::vector<int>{3, 3, 3} : std::vector<int>{2, 1, 1};
    Floats sum;
    int first = 0;
    for (const int size : sizes) {
      const Floats g = whole.gradient(weights, p, first, size, n);
      if (sum.empty()) {
        sum = g;
      } else {
        add(sum, g);
      }
      first += size;
    }
    add(weights, steps.delta(sum, weights, p + 1));
  }
  expect_same({weights, {}, steps.slots()}, result.at.at(2), bench.model(), 2);
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

// W(t+1) = W(t) - rate grad(W(t-1)), the gradient that of the mean over a wave.
TEST(SerialSystems, TwoVersionsByTheirRecursion) {
  for (const int in_flight : {1, 2, 3}) {
    Training training = small({"pipedream-2bw", "", "", ""}, {{8, {3, 5}}}, in_flight);
    training.optimizer = {.name = "sgd", .rate = 0.05f};
    training.samples = 8 * 3 * in_flight + 5;  // the last wave has one minibatch of 5
    const Bench bench(training);
    const SerialSystem program = bench.serial_program();
    const SerialSystem::Result result = program.run();
    Whole whole{program};
    std::vector<Floats> w{whole.model.parameters()};
    for (Wave t = 0; t < 4; ++t) {
      const Floats& seen = t == 0 ? w[0] : w[static_cast<std::size_t>(t - 1)];
      const Minibatch first = t * in_flight;
      const int n = t < 3 ? 8 * in_flight : 5;
      Floats sum;
      for (Minibatch p = first; p < (t < 3 ? first + in_flight : first + 1); ++p) {
        const Floats g = whole.gradient(seen, p, 0, program.sampler.samples(0, p).count, n);
        if (sum.empty()) {
          sum = g;
        } else {
          add(sum, g);
        }
      }
      Floats next = w.back();
      for (std::size_t i = 0; i < next.size(); ++i) next[i] -= 0.05f * sum[i];
      w.push_back(std::move(next));
    }
    ASSERT_EQ(result.label, 4);
    for (Label label = 0; label <= 4; ++label) {
      expect_same({w[static_cast<std::size_t>(label)], {}, {}}, result.at.at(label), bench.model(),
                  label);
    }
  }
}

// Two stages, two in flight: F(p) sees p - 1 updates at stage 0 and p at stage 1, and B(p) p of
// them (newest) or what F saw (stash). SpecTrain looks one update ahead in F of stage 0, nowhere
// else.
TEST(SerialSystems, TwoStagesByHand) {
  for (const std::string weights : {"stash", "newest", "predicted"}) {
    SCOPED_TRACE(weights);
    const Training training = small({"pipedream", "", weights, ""}, {{8, {3}}}, 2);
    const Bench bench(training);
    const SerialSystem program = bench.serial_program();
    const SerialSystem::Result result = program.run();
    const std::int64_t of_stage_0 = ParameterLayout::parameters(bench.model(), 0, 3).count();
    Whole whole{program};
    SerialSteps steps(training.optimizer, whole.model.parameters().size());
    std::vector<Floats> w{whole.model.parameters()};
    Floats velocity;  // of the step that led to W(p - 1)
    for (Minibatch p = 0; p < program.sampler.count(0); ++p) {
      const auto now = static_cast<std::size_t>(p);
      const std::size_t before = p == 0 ? 0 : now - 1;
      Floats seen = w[before];
      if (weights == "predicted" && p >= 2) {
        for (std::size_t i = 0; i < seen.size(); ++i) seen[i] -= 0.05f * velocity[i];
      }
      std::copy(w[now].begin() + of_stage_0, w[now].end(), seen.begin() + of_stage_0);
      SerialMicroBatch batch = std::move(
          micro_batches_of(program.data, program.sampler, program.sampler.samples(0, p), 1)[0]);
      whole.model.set_parameters(seen);
      whole.model.forward(batch.values.at(kSamples), batch.samples.labels, batch.samples.keys,
                          Mode::train);
      const Floats& jacobians = weights == "stash" ? seen : w[now];
      whole.model.set_parameters(jacobians);
      velocity = steps.slots()[0];
      Floats next = w[now];
      add(next, steps.delta(whole.model.backward(), jacobians, p + 1));
      w.push_back(std::move(next));
    }
    expect_same({w.back(), {}, steps.slots()}, result.end(), bench.model(), result.label);
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

}  // namespace
}  // namespace hetpipe
