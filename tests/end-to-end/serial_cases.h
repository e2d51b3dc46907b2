// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/end-to-end/serial_model.h"
#include "tests/end-to-end/training.h"

// What the tests of the serial programs share.
namespace hetpipe {

// A system, and what differs from its row.
struct Composed {
  std::string system, schedule, weights, sync;
};

inline Training composed_training(const Composed& of, std::vector<Training::Worker> workers,
                                  int in_flight = 1, int micro_batches = 1) {
  Training training{.model = "mlp", .samples = 60, .workers = std::move(workers)};
  training.system = of.system;
  training.schedule = of.schedule;
  training.weights = of.weights;
  training.sync = of.sync;
  training.in_flight = in_flight;
  training.micro_batches = micro_batches;
  return training;
}

// The whole model on the samples of one virtual worker, for programs of a few lines.
struct Whole {
  const SerialSystem& system;
  int worker = 0;
  SerialModel model{system.model, system.device, system.seed};

  // Of samples [first, first + count) of minibatch p.
  SerialMicroBatch batch(Minibatch p, int first, int count) const {
    const std::int64_t from = system.sampler.samples(worker, p).first + first;
    return std::move(micro_batches_of(system.data, system.sampler, {from, count}, 1)[0]);
  }
  SerialMicroBatch batch(Minibatch p) const {
    return batch(p, 0, system.sampler.samples(worker, p).count);
  }
  void forward(const Floats& weights, const SerialMicroBatch& batch) {
    model.set_parameters(weights);
    model.forward(batch.values.at(kSamples), batch.samples.labels, batch.samples.keys, Mode::train);
  }
  // Of the mean over `loss_samples` (0: over the batch).
  Floats gradient(const Floats& weights, const SerialMicroBatch& batch, int loss_samples = 0) {
    forward(weights, batch);
    return model.backward(loss_samples);
  }
};

}  // namespace hetpipe
