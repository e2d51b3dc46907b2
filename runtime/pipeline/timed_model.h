// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/sample.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "runtime/model/layer_groups.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"

namespace hetpipe {

// The whole model at one batch, with all its memory, ready to run group by group, as one stage
// would: what the times of a profile are taken of. Samples and weights are made up; times do not
// depend on values.
class TimedModel {
 public:
  TimedModel(const Model& model, Device& device, int batch);

  const std::vector<LayerGroup>& groups() const { return groups_; }
  // Enqueue one group's work: forwards in ascending order, then backwards in descending order.
  void forward(std::size_t group);
  void backward(std::size_t group);
  void update(int layer);  // SGD with momentum, and w += delta
  void synchronize() { stream_->synchronize(); }
  // As the kernel of only this layer has them.
  const LayerShapes& shapes(int layer) const { return shapes_[index(layer)]; }
  const std::vector<LayerShapes>& shapes() const { return shapes_; }
  std::int64_t output_bytes(int layer) const;  // on this device

 private:
  struct State {                                   // of a group
    Buffer output_memory, stash, gradient_memory;  // empty where another layer's is used in place
    std::byte* output = nullptr;
    std::byte* gradient = nullptr;  // of the output; set by its last consumer
    std::vector<Buffer> extra;  // by input: its gradient, where another consumer made one before
    std::vector<const std::byte*> inputs, backward_inputs;
    std::vector<const float*> parameters;
    std::vector<std::byte*> input_gradients;
    std::vector<float*> statistics, parameter_gradients;
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
  void connect(std::size_t group);
  State& producer(int layer);  // the group whose output this layer's is

  const Model& model_;
  Device& device_;
  int batch_;
  std::unique_ptr<Stream> stream_;
  std::vector<SampleKey> keys_;
  Buffer images_, labels_, correct_;
  ParameterLayout parameters_;
  Buffer weights_, statistics_, gradients_, velocity_, delta_;
  std::vector<LayerGroup> groups_;
  std::vector<State> states_;        // by group
  std::vector<LayerShapes> shapes_;  // by layer
};

}  // namespace hetpipe
