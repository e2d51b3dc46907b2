// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/module.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe::bench {

struct StepSetting {
  std::string model;
  Shape sample;  // (H, W, C), or (T) tokens
  int classes = 10;
  int batch = 1;
  std::string device = "cpu";
  int threads = 1;
  GpuOptions gpu{};
  std::string optimizer = "sgd-momentum";
};

// One device that trains one model alone on made-up samples: what a rank does for a minibatch, by
// the same parts (Stage, Optimizer), without messages. Samples lie on the device as fp32 from the
// start; turning them into the device's type is part of a step.
class TrainingStep {
 public:
  explicit TrainingStep(const StepSetting& setting);

  void run();     // enqueues forward, backward, update
  void finish();  // the caller waits for all that was enqueued
  double loss();  // of the first sample of the last run(); waits
  const Model& model() const { return model_; }
  Device& device() { return *device_; }

 private:
  Buffer samples();

  Model model_;
  int batch_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  Optimizer optimizer_;
  std::vector<SampleKey> keys_;
  Buffer weights_, statistics_, images_, labels_, losses_;
  Minibatch minibatch_ = 0;
};

}  // namespace hetpipe::bench
