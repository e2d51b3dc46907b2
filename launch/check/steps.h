// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sample.h"
#include "kernels/device.h"
#include "launch/check/batch.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe {

// A tensor by its name in the state_dict.
struct CheckedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// Steps of training on one minibatch, in one process: forward and backward through stages one after
// another, then each one's optimizer. What `hetpipe check` compares with PyTorch.
class CheckedSteps {
 public:
  // stage_end: one past each stage's last layer.
  CheckedSteps(const Model& model, std::vector<int> stage_end, Device& device,
               const OptimizerOptions& optimizer);

  // The mean loss before the update. The gradients are kept for gradients() where asked.
  double step(const CheckedBatch& batch, bool keep_gradients = false);
  std::vector<CheckedTensor> gradients() const;   // of the last step that kept them
  std::vector<CheckedTensor> parameters() const;  // now
  std::vector<CheckedTensor> statistics() const;

 private:
  struct Part {
    std::unique_ptr<Stage> stage;
    std::unique_ptr<Optimizer> optimizer;
    Buffer weights, foreign, statistics, gradients, uses;
    std::vector<float> gradient_values;
    StageWeights stage_weights() const { return {weights.as<float>(), foreign.as<float>()}; }
  };
  void forward(std::vector<Pass>& passes);
  void backward(std::vector<Pass>& passes);
  void send_foreign();
  void sum_shared();
  std::vector<float> download(const Buffer& buffer) const;
  std::vector<CheckedTensor> named(const ParameterLayout& layout,
                                   const std::vector<float>& values) const;

  const Model& model_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Part> parts_;
  Minibatch next_ = 0;
};

}  // namespace hetpipe
