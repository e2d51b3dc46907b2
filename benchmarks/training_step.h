// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe::bench {

// One device that trains one model alone on made-up samples: what a rank does for a minibatch, by
// the same parts (Stage, Optimizer), without messages.
class TrainingStep {
 public:
  TrainingStep(const std::string& model, const Shape& sample, int batch, int threads);

  void run();  // samples to the device, forward, backward, update
  double loss() const { return loss_; }
  const Model& model() const { return model_; }
  Device& device() { return *device_; }

 private:
  Model model_;
  int batch_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  Stage stage_;
  Optimizer optimizer_;
  std::vector<float> images_;
  std::vector<std::int32_t> labels_;
  std::vector<SampleKey> keys_;
  Buffer weights_, statistics_;
  Minibatch minibatch_ = 0;
  double loss_ = 0;
};

}  // namespace hetpipe::bench
