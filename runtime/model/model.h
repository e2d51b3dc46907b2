// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/layer.h"

namespace hetpipe {

inline constexpr int kSamples = -1;  // as an input: the samples themselves

struct ModelLayer {
  std::string name;
  LayerSpec spec;
  std::vector<int> inputs;  // producers, by layer number; kSamples
};

// A network: layers in topological order, the last one its loss. Shapes follow from the shape of one sample.
class Model {
 public:
  // sample: (H, W, C), or (F).
  Model(std::string name, Shape sample, int classes);

  // Appends a layer; default input: the layer before. Returns its number. Throws UserError (model and layer named) when
  // shapes do not fit or the name is taken.
  int add(std::string name, LayerSpec spec);
  int add(std::string name, LayerSpec spec, std::vector<int> inputs);

  const std::string& name() const { return name_; }
  const Shape& sample_shape() const { return sample_; }
  int classes() const { return classes_; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const ModelLayer& layer(int number) const { return layers_[static_cast<std::size_t>(number)]; }
  const std::vector<ModelLayer>& layers() const { return layers_; }
  // Producers of each layer, kSamples left out: what cut rules and profiles need.
  std::vector<std::vector<int>> producers() const;

  std::vector<Shape> input_shapes(int layer, std::int64_t batch) const;
  LayerShapes shapes(int layer, std::int64_t batch) const;

  std::int64_t parameter_count() const;
  double forward_flops(std::int64_t batch) const;
  std::uint64_t fingerprint() const;  // of name, layers, shapes: ranks and checkpoints compare it
  std::string summary(std::int64_t batch) const;  // a table: layer, output, parameters, flops, bytes

 private:
  std::string name_;
  Shape sample_;
  int classes_;
  std::vector<ModelLayer> layers_;
};

}  // namespace hetpipe
