// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/end-to-end/training.h"

// One virtual worker with one minibatch in flight is plain training: the weights after each
// minibatch are those of a loop that a beginner would write.
namespace hetpipe {
namespace serial_sgd_test {

using Step = std::function<void(Floats& weights, const Floats& gradient, int step)>;

// step counts from 1.
SerialWsp::Result train_plainly(const Bench& bench, const Step& step) {
  const Training& training = bench.training();
  SerialModel model(bench.model(), bench.device(), training.seed);
  const Sampler sampler(training.seed, training.samples, {training.workers[0].minibatch}, 0,
                        std::llround(training.epochs * static_cast<double>(training.samples)));
  SerialWsp::Result result;
  Floats weights = model.parameters();
  result.at[0] = {weights, model.statistics(), {}};
  for (Minibatch p = 0; p < sampler.count(0); ++p) {
    Floats images(
        static_cast<std::size_t>(sampler.samples(0, p).count * bench.data().sample_values()));
    std::vector<std::int32_t> labels;
    std::vector<SampleKey> keys;
    for (int i = 0; i < sampler.samples(0, p).count; ++i) {
      keys.push_back(sampler.key(sampler.samples(0, p).first + i));
      labels.push_back(bench.data().labels[static_cast<std::size_t>(keys.back().index)]);
      bench.data().copy_sample(keys.back(),
                               &images[static_cast<std::size_t>(i * bench.data().sample_values())]);
    }
    model.set_parameters(weights);
    model.forward(images, labels, keys, Mode::train);
    step(weights, model.backward(), static_cast<int>(p) + 1);
    result.label = p + 1;
    result.at[p + 1] = {weights, model.statistics(), {}};
  }
  return result;
}

void expect_plain(const Training& training, const Step& step) {
  const Bench bench(training);
  Trained trained = bench.train();
  // The plain program says nothing of the optimizer's state.
  SerialWsp::Result plain = train_plainly(bench, step);
  for (auto& [label, checkpoint] : trained.checkpoints) {
    plain.at[label].slots = state_of(checkpoint, bench.model()).slots;
  }
  expect_same(trained, plain, bench.model());
}

Training one_worker(const std::string& model, const std::string& device,
                    const std::string& optimizer) {
  Training training{.model = model, .device = device, .workers = {{.minibatch = 16}}};
  training.optimizer.name = optimizer;
  training.samples = 120;  // the last minibatch is partial
  training.epochs = 1.5;
  return training;
}

TEST(SerialSgd, PlainStepsWithDecay) {
  for (const std::string device : {"reference", "cpu"}) {
    Training training = one_worker("mlp", device, "sgd");
    training.optimizer.weight_decay = 0.01f;
    expect_plain(training, [](Floats& w, const Floats& g, int) {
      for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.05f * (g[i] + 0.01f * w[i]);
    });
  }
}

TEST(SerialSgd, MomentumOverThreeStages) {
  for (const std::string device : {"reference", "cpu"}) {
    Training training = one_worker("lenet-bn", device, "sgd-momentum");
    training.optimizer.weight_decay = 0.001f;
    training.workers[0].stage_ends = {3, 8};
    Floats v;
    expect_plain(training, [&v](Floats& w, const Floats& g, int) {
      v.resize(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) {
        v[i] = 0.9f * v[i] + (g[i] + 0.001f * w[i]);
        w[i] -= 0.05f * v[i];
      }
    });
  }
}

TEST(SerialSgd, Adam) {
  for (const std::string device : {"reference", "cpu"}) {
    Training training = one_worker("lenet", device, "adam");
    training.optimizer.rate = 0.002f;
    training.workers[0].stage_ends = {4};
    Floats m, v;
    expect_plain(training, [&](Floats& w, const Floats& g, int t) {
      // Factors to float once, as everywhere: powers in double.
      const double beta1 = 0.9f, beta2 = 0.999f;
      const auto rest1 = static_cast<float>(1 - beta1), rest2 = static_cast<float>(1 - beta2);
      const auto bias1 = static_cast<float>(1 - std::pow(beta1, t));
      const auto bias2 = static_cast<float>(1 - std::pow(beta2, t));
      m.resize(w.size());
      v.resize(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) {
        m[i] = 0.9f * m[i] + rest1 * g[i];
        v[i] = 0.999f * v[i] + rest2 * (g[i] * g[i]);
        w[i] -= 0.002f * (m[i] / bias1) / (std::sqrt(v[i] / bias2) + 1e-8f);
      }
    });
  }
}

}  // namespace serial_sgd_test
}  // namespace hetpipe
