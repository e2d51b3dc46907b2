// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/sample.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "runtime/model/model.h"

namespace hetpipe {

// The whole model at one batch, with all its memory, ready to run layer by layer: what the times of
// a profile are taken of. Samples and weights are made up; times do not depend on values.
class TimedModel {
 public:
  TimedModel(const Model& model, Device& device, int batch);

  // Enqueue one layer's work: forwards in ascending order, then backwards in descending order.
  void forward(int layer);
  void backward(int layer);
  void update(int layer);  // SGD with momentum, and w += delta
  void synchronize() { stream_->synchronize(); }
  const LayerShapes& shapes(int layer) const  // as its kernels here have them
  {
    return states_[index(layer)].shapes;
  }
  std::int64_t output_bytes(int layer) const;  // on this device

 private:
  struct State {
    LayerShapes shapes;
    std::unique_ptr<LayerKernel> kernel;
    Buffer output_memory, stash, gradient_memory;  // empty where another layer's is used in place
    std::byte* output = nullptr;
    std::byte* gradient = nullptr;  // of the output; set by its last consumer
    std::vector<Buffer> extra;  // by input: its gradient, where another consumer made one before
    std::vector<const std::byte*> inputs, backward_inputs;
    std::vector<const float*> parameters;
    std::vector<std::byte*> input_gradients;
    std::vector<float*> statistics, parameter_gradients;
    std::int64_t first_parameter = 0, parameter_count = 0;
  };

  static std::size_t index(int layer) { return static_cast<std::size_t>(layer); }
  Buffer make(std::int64_t bytes, MemoryKind kind) {
    return {device_, *stream_, static_cast<std::size_t>(bytes), kind};
  }
  Buffer upload(std::span<const std::byte> bytes, MemoryKind kind);
  Buffer upload(std::span<const float> values, MemoryKind kind) {
    return upload(std::as_bytes(values), kind);
  }
  void make_samples();
  void make_parameters();
  void connect(int layer);

  const Model& model_;
  Device& device_;
  int batch_;
  std::unique_ptr<Stream> stream_;
  std::vector<SampleKey> keys_;
  Buffer images_, labels_, correct_;
  Buffer weights_, statistics_, gradients_, velocity_, delta_;
  std::vector<State> states_;
};

}  // namespace hetpipe
