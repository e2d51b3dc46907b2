// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/sample.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"
#include "tests/end-to-end/serial_mixing.h"
#include "tests/end-to-end/serial_optimizer.h"

namespace hetpipe {

// The layers of a model one call at a time, everything by value and in host memory: what the serial
// programs of pipelined systems are made of. Knows nothing of stages, versions or order, and keeps
// nothing between calls but kernels.
class SerialLayers {
 public:
  struct Samples {
    std::vector<SampleKey> keys;
    std::vector<std::int32_t> labels;  // labels_per_sample() of each
    std::vector<SerialMixed> mixed;    // of each; empty: not mixed
  };
  // What F of a layer leaves to its B and to other layers.
  struct Kept {
    Floats output;
    std::vector<std::byte> stash;
  };
  struct Gradients {
    std::vector<Floats> inputs;  // empty where the input is the samples
    Floats parameters;           // in the layer's own order
  };

  // `model` and `device` outlive this.
  SerialLayers(const Model& model, Device& device, std::uint64_t seed);

  const Model& model() const { return model_; }

  // weights, statistics: of this layer alone, flat, in its own order. statistics: running ones,
  // updated.
  Kept forward(int layer, const std::vector<const Floats*>& inputs, std::span<const float> weights,
               std::span<float> statistics, const Samples& samples);
  // output_gradient: null for the loss, whose gradient is that of the mean over loss_samples.
  Gradients backward(int layer, const std::vector<const Floats*>& inputs, const Kept& kept,
                     const Floats* output_gradient, std::span<const float> weights,
                     const Samples& samples, std::int64_t loss_samples);

 private:
  struct Ready {  // for a number of samples
    std::vector<Shape> inputs;
    LayerShapes shapes;
    std::unique_ptr<LayerKernel> kernel;
  };
  const Ready& ready(int layer, std::size_t samples);
  bool is_loss(int layer) const { return layer + 1 == model_.layer_count(); }
  Buffer buffer(std::size_t bytes) const;
  template <class T>
  Buffer upload(std::span<const T> values) const;
  template <class T>
  std::vector<T> download(const Buffer& from) const;

  const Model& model_;
  Device& device_;
  std::uint64_t seed_;
  std::unique_ptr<Stream> stream_;
  std::map<std::pair<int, std::size_t>, Ready> ready_;
};

}  // namespace hetpipe
