// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kernels/device.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "tests/end-to-end/serial_model.h"
#include "tests/end-to-end/serial_optimizer.h"
#include "tests/end-to-end/serial_server_step.h"

// Wave Synchronous Parallel (arXiv 2005.14038) as one program in one thread: one whole model on one
// device, no stages, no messages, no waiting. Written from the equations and apart from the
// runtime, which must reach the same weights bit for bit.
//
//   F(p) and B(p) of virtual worker i use
//       snapshot(L) + its waves L ... g-1, each as one sum + its updates gNm ... p-Nm, one by one
//   where g is the last gate passed (it stands before the last minibatch of every wave but the
//   run's first) and L the label it granted; before any gate g = L = the run's first wave.
//
//   snapshot(w+1) = snapshot(w) + factor(0) * wave w of worker 0 + factor(1) * wave w of worker 1
//   ...
// With outer steps a wave is a round of H Nm minibatches, its gate stands before its minibatch
// Nm - 1, and snapshot(w+1) is a step from snapshot(w) towards that sum. With the optimizer at the
// servers it is SerialServerStep's, of factor(0) * wave w of worker 0 + ... by themselves.
namespace hetpipe {

// The nearest number of 8 significant bits (bf16), of two that are as near the one whose last bit
// is 0; of the same range as a float's.
float nearest_bf16(float value);

// The servers' step after a round (DiLoCo, arXiv 2311.08105, algorithm 1; PyTorch's Nesterov): the
// outer gradient is the weights before it less those that the virtual workers' changes add up to.
struct SerialOuter {
  float rate = 1;
  float momentum = 0;
  std::vector<float> velocity{};  // empty: of zeros

  // Replaces `summed`.
  void step(const std::vector<float>& before, std::vector<float>& summed);
};

// Everything that is known of a label: what a checkpoint holds.
struct SerialState {
  std::vector<float> weights;
  std::vector<float> statistics;          // mean over virtual workers
  std::vector<std::vector<float>> slots;  // of the optimizer, mean over virtual workers
};

struct SerialWsp {
  // The label that the gate before the last minibatch of `wave` grants to a virtual worker.
  using Granted = std::function<Label(int worker, Wave wave)>;
  static Granted bound(Wave first_wave, Wave distance);  // max(first_wave, wave - D)

  const Model& model;
  Device& device;
  const Dataset& data;
  Sampler sampler;  // its first minibatch is first_wave * in_flight * round
  std::uint64_t seed = 1;
  int in_flight = 1;
  int round = 1;  // H
  std::optional<SerialOuter> outer{};
  std::optional<SerialServerStep> servers{};  // `optimizer` is then that of the stages
  Wave first_wave = 0;
  std::int64_t updates = 0;          // of each optimizer until there
  std::optional<SerialState> start;  // snapshot(first_wave); absent: initial values
  SerialOptimizer optimizer;
  std::vector<float> factors;  // of a virtual worker's pushes
  // [worker]: one past the last layer of each stage; what is clipped by itself.
  std::vector<std::vector<int>> stage_ends{};
  bool rounds_pushes = false;  // to bf16: every sum of a wave, once it is complete

  struct Result {
    Label label = 0;  // the last one
    std::map<Label, SerialState> at;
    std::vector<std::map<Minibatch, std::vector<float>>> losses;  // [worker]: of each sample
    const SerialState& end() const { return at.at(label); }
  };
  Result run(const Granted& granted) const;
};

// Loss and hits over a whole data set at a label: batches of `batch` samples, running statistics.
struct SerialEvaluation {
  double loss_sum = 0;
  std::int64_t correct = 0;
};
SerialEvaluation evaluate_serially(const Model& model, Device& device, const Dataset& data,
                                   const SerialState& state, int batch);

}  // namespace hetpipe
