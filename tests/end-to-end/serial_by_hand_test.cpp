// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/end-to-end/serial_cases.h"

// The serial programs against programs of a few lines that know one whole model and no stages.
namespace hetpipe {
namespace serial_by_hand_test {

// g = g0 + g1 + ... over micro-batches.
TEST(SerialByHand, Accumulation) {
  Training training = composed_training({"gpipe", "", "", ""}, {{9, {3}}}, 2, 3);
  training.optimizer.weight_decay = 0.01f;
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
      const Floats g = whole.gradient(weights, whole.batch(p, first, size), n);
      sum.empty() ? void(sum = g) : add(sum, g);
      first += size;
    }
    add(weights, steps.delta(sum, weights, p + 1, p));
  }
  expect_same({weights, {}, steps.slots()}, result.at.at(2), bench.model(), 2);
}

// W(t+1) = W(t) - rate grad(W(t-1)), the gradient that of the mean over a wave.
TEST(SerialByHand, TwoVersions) {
  for (const int in_flight : {1, 2, 3}) {
    Training training = composed_training({"pipedream-2bw", "", "", ""}, {{8, {3, 5}}}, in_flight);
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
        const Floats g = whole.gradient(seen, whole.batch(p), n);
        sum.empty() ? void(sum = g) : add(sum, g);
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
TEST(SerialByHand, TwoStages) {
  for (const std::string weights : {"stash", "newest", "predicted"}) {
    SCOPED_TRACE(weights);
    // Two linear layers in stage 0: its B depends on its weights.
    Training training = composed_training({"pipedream", "", weights, ""}, {{8, {5}}}, 2);
    training.optimizer.weight_decay = 0.01f;
    const Bench bench(training);
    const SerialSystem program = bench.serial_program();
    const SerialSystem::Result result = program.run();
    const std::int64_t of_stage_0 = ParameterLayout::parameters(bench.model(), 0, 5).count();
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
      whole.forward(seen, whole.batch(p));
      const Floats& jacobians = weights == "stash" ? seen : w[now];
      whole.model.set_parameters(jacobians);
      velocity = steps.slots()[0];
      Floats next = w[now];
      add(next,
          steps.delta(whole.model.backward(), w[now], p + 1, p));  // decay: the newest weights
      w.push_back(std::move(next));
    }
    expect_same({w.back(), {}, steps.slots()}, result.end(), bench.model(), result.label);
  }
}

// Two virtual workers of one stage that apply their updates at once (ssp): F(p) sees snapshot(L),
// the own waves from L up to the last gate g, and all own updates since.
TEST(SerialByHand, OneStageUnderWsp) {
  for (const int distance : {0, 1, 3}) {
    SCOPED_TRACE(distance);
    Training training = composed_training({"ssp", "", "", ""}, {{8}, {4}}, 2);
    training.distance = distance;
    training.samples = 120;  // 10 minibatches each
    const Bench bench(training);
    const SerialSystem program = bench.serial_program();
    const SerialSystem::Result result = program.run();
    ASSERT_EQ(result.label, 5);
    struct Worker {
      Whole whole;
      SerialSteps steps;
      std::vector<Floats> updates{}, waves{};
    };
    std::vector<Worker> workers;
    std::vector<Floats> snapshots;
    for (int i = 0; i < 2; ++i) {
      workers.push_back({Whole{program, i}, SerialSteps(training.optimizer, 0)});
      snapshots = {workers.back().whole.model.parameters()};
      workers.back().steps = SerialSteps(training.optimizer, snapshots[0].size());
    }
    for (Wave wave = 0; wave < 5; ++wave) {
      Floats next = snapshots.back();
      for (Worker& worker : workers) {
        for (Minibatch p = 2 * wave; p < 2 * wave + 2; ++p) {
          // The gate of a wave stands before its second minibatch.
          const Wave gate = std::max<Wave>(0, p % 2 == 1 ? wave : wave - 1);
          const Label label = std::max<Label>(0, gate - distance);
          Floats weights = snapshots[static_cast<std::size_t>(label)];
          for (Wave own = label; own < gate; ++own) {
            add(weights, worker.waves[static_cast<std::size_t>(own)]);
          }
          for (Minibatch q = 2 * gate; q < p; ++q) {
            add(weights, worker.updates[static_cast<std::size_t>(q)]);
          }
          const Floats gradient = worker.whole.gradient(weights, worker.whole.batch(p));
          worker.updates.push_back(worker.steps.delta(gradient, weights, p + 1, p));
        }
        Floats sum = worker.updates[worker.updates.size() - 2];
        add(sum, worker.updates.back());
        worker.waves.push_back(sum);
        const auto weight = static_cast<float>(2 * (&worker == &workers[0] ? 8.0 : 4.0) / 12);
        for (std::size_t i = 0; i < sum.size(); ++i) next[i] += weight * sum[i];
      }
      snapshots.push_back(std::move(next));
      const Label label = wave + 1;
      SerialState expected = result.at.at(label);
      expected.weights = snapshots.back();
      expect_same(expected, result.at.at(label), bench.model(), label);
    }
  }
}

// n = 7, 2 and 1 samples over shares 2 : 1 : 3, whose prefix sums are 0, 2, 3, 6: floor(n c / 6).
TEST(SerialByHand, SharesOfReplicas) {
  const Training training = composed_training({"gpipe", "", "", ""}, {{8}});
  const Bench bench(training);
  const SerialSystem program = bench.serial_program();
  SerialLayers layers(bench.model(), bench.device(), training.seed);
  SerialStage stage(layers, 0, 3, {2, 1, 3});
  Whole whole{program};
  Floats weights = whole.model.parameters();
  weights.resize(static_cast<std::size_t>(stage.parameters().count()));
  const std::map<int, std::vector<int>> ends{{7, {2, 3, 7}}, {2, {0, 1, 2}}, {1, {0, 0, 1}}};
  for (const auto& [n, end] : ends) {
    SerialMicroBatch micro = whole.batch(0, 0, n);
    std::vector<Floats> none(3);
    const std::vector<SerialPass> passes = stage.forward(micro, weights, none);
    int first = 0;
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(passes[r].first, first);
      EXPECT_EQ(std::ssize(passes[r].samples.keys), end[r] - first);
      first = end[r];
    }
  }
}

// Recomputation with the weights of F gives what F left; with others, what F would have left. It
// has no running statistics to update.
TEST(SerialByHand, Recomputation) {
  Training training = composed_training({"gpipe", "", "", ""}, {{8}});
  training.model = "lenet-bn";
  training.device = "cpu";
  const Bench bench(training);
  const SerialSystem program = bench.serial_program();
  SerialLayers layers(bench.model(), bench.device(), training.seed);
  SerialStage stage(layers, 0, bench.model().layer_count(), {2, 1});
  Whole whole{program};
  const Floats weights = whole.model.parameters();
  Floats others = weights;
  for (float& value : others) value *= 0.5f;
  std::vector<Floats> running(2, whole.model.statistics());
  SerialMicroBatch micro = whole.batch(0);
  std::vector<SerialPass> passes = stage.forward(micro, weights, running);
  const auto outputs = [](const std::vector<SerialPass>& of) {
    std::vector<Floats> all;
    for (const SerialPass& pass : of) {
      for (const auto& [layer, kept] : pass.layers) all.push_back(kept.output);
    }
    return all;
  };
  const std::vector<Floats> of_forward = outputs(passes);
  stage.recompute(passes, others);
  EXPECT_NE(outputs(passes), of_forward);
  SerialMicroBatch again = whole.batch(0);
  std::vector<Floats> unused = running;
  EXPECT_EQ(outputs(stage.forward(again, others, unused)), outputs(passes));
  stage.recompute(passes, weights);
  EXPECT_EQ(outputs(passes), of_forward);
}

}  // namespace serial_by_hand_test
}  // namespace hetpipe
