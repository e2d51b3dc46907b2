// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/layer.h"

namespace hetpipe {

inline constexpr int kSamples = -1;  // as an input: the samples themselves

// Where a parameter or running statistic of an imported model stands in its state_dict.
struct StateTensor {
  std::string name;                 // "layer3.4.conv2.weight"
  std::vector<std::int64_t> shape;  // PyTorch's, of as many elements
  bool frozen = false;              // a parameter that training does not change
};

// A parameter that is an earlier layer's, of as many elements.
struct SharedParameter {
  std::string name;        // "weight"
  int owner = 0;           // layer
  std::string owner_name;  // of the owner's parameter
  bool operator==(const SharedParameter&) const = default;
};

struct ModelLayer {
  std::string name;
  LayerSpec spec;
  std::vector<int> inputs;  // producers, by layer number; kSamples
  // Parameters that are another layer's (tied weights); the others are its own.
  std::vector<SharedParameter> shares = {};
  // The shape in which it reads each input, of one sample, where it is not the producer's: the same
  // elements. Empty: none differs; without extents: this one does not.
  std::vector<Shape> views = {};
  // Of an imported model: of its parameters and then its statistics, in order.
  std::vector<StateTensor> state = {};
  bool frozen = false;  // training does not change its own parameters
};

// Initial values by the names of a state_dict.
class StateValues {
 public:
  virtual ~StateValues() = default;
  virtual std::span<const float> of(const std::string& name) const = 0;
  // Of a built-in model, by layer and parameter, "conv1/weight", in its own layout; empty: drawn.
  virtual std::span<const float> of_entry(const std::string& /*name*/) const { return {}; }
  // What people should know of them; empty: nothing.
  virtual std::string remark() const { return ""; }
};

// Whose the layer's parameter is; null: its own.
const SharedParameter* shared_parameter(const ModelLayer& layer, const ParameterShape& parameter);

// A network: layers in topological order, the last one its loss. Shapes follow from the shape of
// one sample.
class Model {
 public:
  // sample: (H, W, C), (F), or (T) tokens; classes: 0 where labels are no classes. UserError for
  // empty extents or one class.
  Model(std::string name, Shape sample, int classes);

  // Appends a layer; default input: the layer before, or the samples. Returns its number. Throws
  // UserError (model and layer named) when shapes do not fit or the name is taken. Names hold
  // letters, digits, '.', '_' and '-': '/' separates layer and parameter.
  int add(std::string name, LayerSpec spec);
  // With `shares` the layer's weight is that of an earlier layer, of the same shape.
  int add(std::string name, LayerSpec spec, std::vector<int> inputs,
          std::optional<int> shares = std::nullopt);
  int add(ModelLayer layer);

  // Of the loss, which is the last layer: the share of a label that is spread over all classes.
  // Neither shapes nor parameters depend on it, and so the fingerprint does not.
  void set_label_smoothing(float smoothing);
  // Of the same: samples that are mixed with another one, each with the labels of both
  // (SoftmaxCrossEntropy::mixed). UserError, said of `option`, where a sample has not one label
  // that is a class, or where labels weigh differently. Neither does the fingerprint depend on it.
  void mix_labels(const std::string& option);
  // Of the same: whether any label may be none, and what each class weighs (empty: 1). What weighs
  // a label is known to who holds them: `loss_weight` of a pass.
  void weigh_labels(bool skips, std::vector<float> class_weights);
  // Cross-entropy of labels that weigh differently, and which of a sample's these are; null: none.
  struct LabelRange {
    std::int64_t first = 0, count = 0;
  };
  struct WeighedLoss {
    const SoftmaxCrossEntropy* loss = nullptr;
    LabelRange labels;
  };
  WeighedLoss weighed_loss() const;
  // Labels of a sample lie in parts, one for each kind of label that its losses read: labels of
  // each. A pass has those of all samples of the first part, then of the next.
  std::vector<std::int64_t> label_sizes() const;
  // Of a sample's labels, those that are classes that the accuracy is of; none: there is none.
  LabelRange class_labels() const;
  bool predicts_classes() const { return class_labels().count > 0; }
  // Which of the loss's inputs holds the predictions that the accuracy is of, (N, classes) or
  // (N, T, classes); nothing: none.
  std::optional<std::size_t> class_input() const;

  // Freezes the layers whose names match a pattern ('*' stands for any characters, '?' for one).
  // Running statistics go on. UserError, said of `option`, where a pattern matches no layer with
  // parameters of its own, or nothing is left to train.
  void freeze(const std::string& option, const std::vector<std::string>& patterns);

  // Parameters and statistics that have a name in a state_dict start from these.
  void set_initial(std::shared_ptr<const StateValues> values) { initial_ = std::move(values); }
  const std::shared_ptr<const StateValues>& initial() const { return initial_; }

  // UserError unless the last layer is the loss and every other layer's output is used.
  void check_complete() const;

  const std::string& name() const { return name_; }
  const Shape& sample_shape() const { return sample_; }
  int classes() const { return classes_; }
  int layer_count() const { return static_cast<int>(layers_.size()); }
  const ModelLayer& layer(int number) const { return layers_[static_cast<std::size_t>(number)]; }
  const std::vector<ModelLayer>& layers() const { return layers_; }
  // Producers of each layer, without kSamples: what cut rules and profiles need.
  std::vector<std::vector<int>> producers() const;

  // In which a layer reads its inputs, which are there already.
  std::vector<Shape> shapes_read(const ModelLayer& layer, std::int64_t batch) const;
  Shape batch_shape(std::int64_t batch) const;  // of the samples: (N, H, W, C), (N, F) or (N, T)
  std::int64_t labels_per_sample() const;       // of all parts; T where the loss is over tokens
  // Those that are predicted, and that the loss is a mean over: some of them where tokens are
  // masked.
  std::int64_t predictions_per_sample() const;
  // Whether a token's output depends on tokens behind it, by attention that is not causal.
  bool sees_all_tokens() const;
  // Of what the embedding that reads the samples takes; 0 where none does: samples are no tokens.
  int vocabulary() const;
  // A layer that keeps the model from being trained with activations of two bytes: it embeds tokens
  // that another layer gives, or computes with tokens (which are fp32) what is no embedding. -1:
  // none.
  int layer_in_need_of_fp32() const;
  // The first extent is the samples, or a multiple of them.
  Shape output_shape(int layer, std::int64_t batch) const;
  std::vector<Shape> input_shapes(int layer, std::int64_t batch) const;
  LayerShapes shapes(int layer, std::int64_t batch) const;

  std::int64_t parameter_count() const;           // each shared one once
  std::int64_t parameter_count(int layer) const;  // without those of another layer
  double forward_flops(std::int64_t batch) const;
  // Of name, layers, shapes: ranks and checkpoints compare it. An imported model's does not depend
  // on the loss, which a training chooses.
  std::uint64_t fingerprint() const;

 private:
  std::string name_;
  Shape sample_;
  int classes_;
  std::vector<ModelLayer> layers_;
  std::vector<Shape> outputs_;  // of one sample, by layer
  std::shared_ptr<const StateValues> initial_;
};

// The types of a model's tensors on a device whose activations are of one type. Losses are fp32
// everywhere.
inline ElementType output_type(const Model& model, int layer, ElementType activations) {
  return layer + 1 == model.layer_count() ? ElementType::fp32 : activations;
}

// Tokens are fp32 everywhere; other samples are activations.
inline ElementType sample_type(const Model& model, ElementType activations) {
  return model.vocabulary() > 0 ? ElementType::fp32 : activations;
}

}  // namespace hetpipe
