// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/model.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::string place(const Model& model, const std::string& layer) {
  return "model '" + model.name() + "', layer '" + layer + "'";
}

bool good_name(const std::string& name) {
  const auto good = [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  return !name.empty() && name.front() != '.' && std::all_of(name.begin(), name.end(), good);
}

// "3", or "1x7" where the two differ.
std::string both(Sides sides) {
  return sides == Sides{sides.rows} ? std::to_string(sides.rows)
                                    : format("%dx%d", sides.rows, sides.columns);
}

// Every field of a layer as text: what to_string tells people leaves some out.
struct FullText {
  std::string operator()(const Convolution& c) const {
    std::string text =
        format("convolution %d %s %s %s %d", c.output_channels, both(c.kernel).c_str(),
               both(c.stride).c_str(), both(c.padding).c_str(), c.bias);
    if (c.groups != 1) text += format(" groups %d", c.groups);
    if (c.dilation != Sides{1}) text += " dilation " + both(c.dilation);
    if (c.padding_end) text += " end " + both(*c.padding_end);
    return text;
  }
  std::string operator()(const Linear& l) const {
    std::string text = format("linear %d %d", l.output_features, l.bias);
    if (l.transposed) text += " transposed";
    if (l.deviation != 0) text += format(" %a", static_cast<double>(l.deviation));
    return text;
  }
  std::string operator()(const BatchNorm& b) const {
    return format("batch-norm %a %a", static_cast<double>(b.epsilon),
                  static_cast<double>(b.momentum)) +
           (b.affine ? "" : " plain") + (b.tracked ? "" : " untracked");
  }
  std::string operator()(const MaxPool& p) const {
    return format("max-pool %s %s %s", both(p.kernel).c_str(), both(p.stride).c_str(),
                  both(p.padding).c_str()) +
           (p.ceil_mode ? " ceil" : "") +
           (p.dilation == Sides{1} ? "" : " dilation " + both(p.dilation));
  }
  std::string operator()(const AveragePool& p) const {
    return format("average-pool %s %s %s", both(p.kernel).c_str(), both(p.stride).c_str(),
                  both(p.padding).c_str()) +
           (p.count_padding ? "" : " image") + (p.ceil_mode ? " ceil" : "");
  }
  std::string operator()(const GlobalAveragePool&) const { return "global-average-pool"; }
  std::string operator()(const Add&) const { return "add"; }
  std::string operator()(const Flatten&) const { return "flatten"; }
  std::string operator()(const Dropout& d) const {
    return format("dropout %a", static_cast<double>(d.rate)) +
           (d.draws == 0 ? "" : format(" %d", d.draws));
  }
  std::string operator()(const AlphaDropout& d) const {
    return format("alpha-dropout %a", static_cast<double>(d.rate));
  }
  std::string operator()(const Concat&) const { return "concat"; }
  std::string operator()(const Shift& s) const { return format("shift %d %d", s.rows, s.columns); }
  // Smoothed and mixed labels are choices of the training, not of the model.
  std::string operator()(const SoftmaxCrossEntropy& s) const {
    std::string text =
        s.labelled == 0 ? "softmax-cross-entropy" : format("softmax-cross-entropy %d", s.labelled);
    if (s.skips) text += " skips";
    for (std::int64_t i = 0; i < s.class_weights.size(); ++i) {
      text += format(" %a", static_cast<double>(s.class_weights[i]));
    }
    return text;
  }
  std::string operator()(const RegressionLoss& l) const {
    return format("regression-loss %d %a", static_cast<int>(l.kind), static_cast<double>(l.beta));
  }
  std::string operator()(const JointLoss& l) const {
    std::string text = "joint-loss";
    for (const JointLoss::Term& term : l.terms) {
      text += format(" %a %d ", static_cast<double>(term.weight), term.labels) +
              std::visit(*this, term.loss);
    }
    for (const std::int64_t size : l.label_sizes) {
      text += format(" /%lld", static_cast<long long>(size));
    }
    return text;
  }
  std::string operator()(const OutputLoss&) const { return "output-loss"; }
  std::string operator()(const Embedding& e) const {
    return format("embedding %d %d %a", e.vocabulary, e.features,
                  static_cast<double>(e.deviation)) +
           (e.padding < 0 ? "" : format(" padding %d", e.padding));
  }
  std::string operator()(const PositionEmbedding& p) const {
    return format("position-embedding %d %a", p.positions, static_cast<double>(p.deviation));
  }
  std::string operator()(const LayerNorm& l) const {
    return format("layer-norm %a", static_cast<double>(l.epsilon)) + (l.scaled ? "" : " unscaled") +
           (l.shifted ? "" : " unshifted");
  }
  std::string operator()(const SelfAttention& a) const {
    return format("self-attention %d %d", a.heads, a.causal);
  }
  std::string operator()(const Lstm& l) const { return format("lstm %d", l.hidden); }
  std::string operator()(const TransposedConvolution& c) const {
    return format("transposed-convolution %d %s %s %s %s %s %d %d", c.output_channels,
                  both(c.kernel).c_str(), both(c.stride).c_str(), both(c.padding).c_str(),
                  both(c.output_padding).c_str(), both(c.dilation).c_str(), c.groups, c.bias);
  }
  std::string operator()(const Resize& r) const {
    return format("resize %d %d %d %a %a", static_cast<int>(r.kind), r.rows, r.columns, r.row_step,
                  r.column_step);
  }
  std::string operator()(const AdaptivePool& p) const {
    return format("adaptive-pool %d %d %d", p.maximum, p.rows, p.columns);
  }
  std::string operator()(const GroupNorm& g) const {
    return format("group-norm %d %a %d", g.groups, static_cast<double>(g.epsilon), g.affine);
  }
  std::string operator()(const RmsNorm& r) const {
    return format("rms-norm %a %d %d", static_cast<double>(r.epsilon), r.scaled, r.one_plus);
  }
  std::string operator()(const Recurrent& r) const {
    return format("recurrent %d %d %d %d", static_cast<int>(r.kind), r.hidden, r.bias, r.reverse);
  }
  template <class Layer>
  requires AlgebraLayer<Layer> std::string operator()(const Layer& layer) const {
    return full_text(layer);
  }
  template <Elementwise Layer>
  std::string operator()(const Layer&) const {
    static_assert(std::is_empty_v<Layer>, "a layer with parameters has a text of its own here");
    return row_of<Layer>().name;
  }
};

// Of one sample's shape, that of a batch: the first extent may be several rows of a sample.
Shape with_samples(const Shape& of_one, std::int64_t batch) {
  return of_one.with_batch(of_one[0] * batch);
}

const ParameterShape* parameter_of(const LayerShapes& shapes, const std::string& name) {
  for (const ParameterShape& p : shapes.parameters) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

void check_shared(const Model& model, const std::string& where, const LayerShapes& user,
                  const SharedParameter& shared, bool exported) {
  if (shared.owner < 0 || shared.owner >= model.layer_count()) {
    throw UserError(where, format("shares the %s of layer %d (only %d come before it). Name an "
                                  "earlier layer.",
                                  shared.name.c_str(), shared.owner, model.layer_count()));
  }
  const ModelLayer& owner = model.layer(shared.owner);
  const std::string its = "'" + owner.name + "'";
  const LayerShapes shapes = model.shapes(shared.owner, 1);
  const ParameterShape* const theirs = parameter_of(shapes, shared.owner_name);
  const ParameterShape* const mine = parameter_of(user, shared.name);
  if (theirs != nullptr && shared_parameter(owner, *theirs) != nullptr) {
    throw UserError(where, "shares the " + shared.owner_name + " of " + its + " (whose " +
                               shared.owner_name + " is another layer's). Name the owner.");
  }
  // One tensor of a state_dict may be seen in two shapes.
  const auto same = [&] {
    return exported ? theirs->shape.elements() == mine->shape.elements()
                    : theirs->shape == mine->shape;
  };
  if (theirs == nullptr || mine == nullptr || !same()) {
    const auto text = [](const ParameterShape* p) {
      return p == nullptr ? std::string("none") : to_string(p->shape);
    };
    throw UserError(where, "has " + shared.name + " " + text(mine) + " and shares that of " + its +
                               ", " + text(theirs) +
                               " (one tensor cannot be both). Give both the same shape.");
  }
}

}  // namespace

const SharedParameter* shared_parameter(const ModelLayer& layer, const ParameterShape& parameter) {
  for (const SharedParameter& shared : layer.shares) {
    if (shared.name == parameter.name) return &shared;
  }
  return nullptr;
}

Model::Model(std::string name, Shape sample, int classes)
    : name_(std::move(name)), sample_(sample), classes_(classes) {
  Problems problems;
  const std::string where = "model '" + name_ + "'";
  bool positive = true;
  for (int i = 0; i < sample_.rank(); ++i) positive = positive && sample_[i] > 0;
  if (sample_.rank() < 1 || sample_.rank() >= Shape::kMaxRank || !positive) {
    problems.add(where, "samples of shape " + to_string(sample_) +
                            " (extents have to be positive). Give a shape such as (H, W, C) or "
                            "(F).");
  }
  if (classes_ < 2 && classes_ != 0) {
    problems.add(where, format("%d classes (a classifier needs at least 2). Check the labels of "
                               "the data set.",
                               classes_));
  }
  problems.throw_if_any();
}

int Model::add(std::string name, LayerSpec spec) {
  return add(std::move(name), std::move(spec), {layer_count() - 1});
}

int Model::add(std::string name, LayerSpec spec, std::vector<int> inputs,
               std::optional<int> shares) {
  ModelLayer layer{std::move(name), std::move(spec), std::move(inputs)};
  if (shares) layer.shares.push_back({"weight", *shares, "weight"});
  return add(std::move(layer));
}

int Model::add(ModelLayer layer) {
  const std::string& name = layer.name;
  const LayerSpec& spec = layer.spec;
  const std::vector<int>& inputs = layer.inputs;
  const std::string where = place(*this, name);
  if (!good_name(name)) {
    throw UserError(where,
                    "bad name ('/' separates layer and parameter in files). Use letters, "
                    "digits, '.', '_' and '-', and do not begin with '.'.");
  }
  for (const ModelLayer& other : layers_) {
    if (other.name == name) {
      throw UserError(where,
                      "the name is taken (files identify parameters by it). Choose another.");
    }
  }
  for (int input : inputs) {
    if (input < kSamples || input >= layer_count()) {
      throw UserError(where,
                      format("input %d is not an earlier layer (there are %d). Add layers in "
                             "topological order.",
                             input, layer_count()));
    }
    if (input != kSamples && is_loss(this->layer(input).spec)) {
      throw UserError(where, "follows the loss '" + this->layer(input).name +
                                 "' (the loss is the last layer). Add it before the loss.");
    }
  }
  const std::vector<Shape> shapes_in = shapes_read(layer, 1);
  LayerShapes shapes;
  try {
    shapes = infer_shapes(spec, shapes_in);
  } catch (const std::invalid_argument& error) {
    throw UserError(where, std::string(error.what()) +
                               " (shapes are for one sample). Change the layer or its input.");
  }
  if (std::holds_alternative<SoftmaxCrossEntropy>(spec)) {
    const std::int64_t logits = shapes_in.front()[shapes_in.front().rank() - 1];
    if (logits != classes_) {
      throw UserError(where, format("%lld logits for %d classes (each class needs one). Change the "
                                    "layer before.",
                                    static_cast<long long>(logits), classes_));
    }
  }
  for (const SharedParameter& shared : layer.shares) {
    check_shared(*this, where, shapes, shared, !layer.state.empty());
  }
  layers_.push_back(std::move(layer));
  outputs_.push_back(shapes.output);
  return layer_count() - 1;
}

namespace {

// The cross-entropies of a loss, whether it is one or a sum.
std::vector<SoftmaxCrossEntropy*> cross_entropies(LayerSpec& spec) {
  std::vector<SoftmaxCrossEntropy*> all;
  if (auto* loss = std::get_if<SoftmaxCrossEntropy>(&spec)) all.push_back(loss);
  if (auto* joint = std::get_if<JointLoss>(&spec)) {
    for (JointLoss::Term& term : joint->terms) {
      if (auto* loss = std::get_if<SoftmaxCrossEntropy>(&term.loss)) all.push_back(loss);
    }
  }
  return all;
}

// Labels of a sample, of what a loss reads; 0: none.
std::int64_t labels_of(const LayerSpec& spec, const Shape& predictions) {
  if (std::holds_alternative<OutputLoss>(spec)) return 0;
  if (std::holds_alternative<RegressionLoss>(spec)) return predictions.elements();
  return predictions.rank() == 3 ? predictions[1] : 1;
}

}  // namespace

void Model::set_label_smoothing(float smoothing) {
  if (smoothing == 0) return;
  ensure(!layers_.empty(), "a model with a loss at its end");
  const std::vector<SoftmaxCrossEntropy*> losses = cross_entropies(layers_.back().spec);
  if (losses.empty()) {
    throw UserError("--label-smoothing", "is for cross-entropy (model '" + name_ +
                                             "' learns by another loss). Leave it out.");
  }
  for (SoftmaxCrossEntropy* loss : losses) loss->smoothing = smoothing;
}

void Model::mix_labels(const std::string& option) {
  ensure(!layers_.empty(), "a model with a loss at its end");
  LayerSpec& spec = layers_.back().spec;
  const auto* joint = std::get_if<JointLoss>(&spec);
  const std::vector<SoftmaxCrossEntropy*> losses = cross_entropies(spec);
  const bool one_class_each = label_sizes() == std::vector<std::int64_t>{1} &&
                              losses.size() == (joint == nullptr ? 1 : joint->terms.size());
  if (!one_class_each) {
    throw UserError(option, "is for a class of each sample (model '" + name_ +
                                "' learns something else). Leave it out.");
  }
  for (SoftmaxCrossEntropy* loss : losses) {
    if (loss->skips || !loss->class_weights.empty()) {
      throw UserError(option, loss->skips ? "is for data whose samples all have a class (some have "
                                            "--ignore-index here). Leave it out."
                                          : "takes classes to weigh alike (--class-weights says "
                                            "otherwise). Leave out one of them.");
    }
    loss->mixed = true;
  }
}

void Model::weigh_labels(bool skips, std::vector<float> class_weights) {
  ensure(!layers_.empty(), "a model with a loss at its end");
  const ConstantTable<float> weights(std::move(class_weights));
  for (SoftmaxCrossEntropy* loss : cross_entropies(layers_.back().spec)) {
    loss->skips = skips;
    loss->class_weights = weights;
  }
}

std::vector<std::int64_t> Model::label_sizes() const {
  if (layers_.empty()) return {1};
  const LayerSpec& spec = layers_.back().spec;
  if (const auto* joint = std::get_if<JointLoss>(&spec)) return joint->label_sizes;
  return {is_loss(spec) ? labels_of(spec, input_shapes(layer_count() - 1, 1).front()) : 1};
}

namespace {

// The first cross-entropy of a loss that `wanted` says yes to.
template <class Wanted>
Model::WeighedLoss first_of_classes(const Model& model, const Wanted& wanted) {
  if (model.layers().empty()) return {};
  const LayerSpec& spec = model.layers().back().spec;
  const std::vector<std::int64_t> sizes = model.label_sizes();
  const auto* alone = std::get_if<SoftmaxCrossEntropy>(&spec);
  if (alone != nullptr && wanted(*alone)) return {alone, {0, sizes.front()}};
  const auto* joint = std::get_if<JointLoss>(&spec);
  if (joint == nullptr) return {};
  for (const JointLoss::Term& term : joint->terms) {
    const auto* loss = std::get_if<SoftmaxCrossEntropy>(&term.loss);
    if (loss == nullptr || !wanted(*loss)) continue;
    const auto part = sizes.begin() + term.labels;
    return {loss, {std::accumulate(sizes.begin(), part, std::int64_t{0}), *part}};
  }
  return {};
}

}  // namespace

Model::WeighedLoss Model::weighed_loss() const {
  return first_of_classes(*this, [](const SoftmaxCrossEntropy& loss) {
    return loss.skips || !loss.class_weights.empty();
  });
}

Model::LabelRange Model::class_labels() const {
  return first_of_classes(*this, [](const SoftmaxCrossEntropy&) { return true; }).labels;
}

void Model::freeze(const std::string& option, const std::vector<std::string>& patterns) {
  const auto has_own = [&](int l) {
    const ModelLayer& layer = layers_[static_cast<std::size_t>(l)];
    const std::vector<ParameterShape> parameters = shapes(l, 1).parameters;
    return std::any_of(parameters.begin(), parameters.end(), [&](const ParameterShape& p) {
      return shared_parameter(layer, p) == nullptr;
    });
  };
  Problems problems;
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (int l = 0; l < layer_count(); ++l) {
      ModelLayer& layer = layers_[static_cast<std::size_t>(l)];
      if (::fnmatch(pattern.c_str(), layer.name.c_str(), 0) != 0 || !has_own(l)) continue;
      layer.frozen = matched = true;
    }
    if (!matched) {
      problems.add(option, "'" + pattern + "' matches no layer of model '" + name_ +
                               "' that has parameters. Name layers as hetpipe profile lists them, "
                               "such as '" +
                               layers_.front().name + "', or 'layer1.*'.");
    }
  }
  bool trains = false;
  for (int l = 0; l < layer_count(); ++l) {
    trains |= has_own(l) && !layers_[static_cast<std::size_t>(l)].frozen;
  }
  if (!patterns.empty() && !trains) {
    problems.add(option, "leaves nothing of model '" + name_ + "' to train. Freeze fewer layers.");
  }
  problems.throw_if_any();
}

std::optional<std::size_t> Model::class_input() const {
  if (layers_.empty()) return std::nullopt;
  const LayerSpec& spec = layers_.back().spec;
  if (std::holds_alternative<SoftmaxCrossEntropy>(spec)) return 0;
  const auto* joint = std::get_if<JointLoss>(&spec);
  if (joint == nullptr) return std::nullopt;
  const auto term = std::ranges::find_if(joint->terms, [](const JointLoss::Term& t) {
    return std::holds_alternative<SoftmaxCrossEntropy>(t.loss);
  });
  if (term == joint->terms.end()) return std::nullopt;
  return static_cast<std::size_t>(term - joint->terms.begin());
}

void Model::check_complete() const {
  if (layers_.empty() || !is_loss(layers_.back().spec)) {
    throw UserError("model '" + name_ + "'",
                    "no loss at the end (training needs one). Add a SoftmaxCrossEntropy layer "
                    "last.");
  }
  std::vector<bool> used(layers_.size(), false);
  used.back() = true;
  for (const auto& inputs : producers()) {
    for (int input : inputs) used[static_cast<std::size_t>(input)] = true;
  }
  Problems problems;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (!used[i]) {
      problems.add(place(*this, layers_[i].name),
                   "its output is not used (it would never get a gradient). Remove it or connect "
                   "it.");
    }
  }
  problems.throw_if_any();
}

std::vector<std::vector<int>> Model::producers() const {
  std::vector<std::vector<int>> all;
  for (const ModelLayer& layer : layers_) {
    std::vector<int>& inputs = all.emplace_back(layer.inputs);
    std::erase(inputs, kSamples);
  }
  return all;
}

Shape Model::batch_shape(std::int64_t batch) const {
  std::vector<std::int64_t> extents{batch};
  for (int i = 0; i < sample_.rank(); ++i) extents.push_back(sample_[i]);
  return Shape(std::span<const std::int64_t>(extents));
}

std::int64_t Model::labels_per_sample() const {
  std::int64_t all = 0;
  for (const std::int64_t size : label_sizes()) all += size;
  return all;
}

std::int64_t Model::predictions_per_sample() const {
  const auto* loss =
      layers_.empty() ? nullptr : std::get_if<SoftmaxCrossEntropy>(&layers_.back().spec);
  return loss != nullptr && loss->labelled != 0 ? loss->labelled : labels_per_sample();
}

bool Model::sees_all_tokens() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const ModelLayer& layer) {
    const auto* attention = std::get_if<SelfAttention>(&layer.spec);
    return attention != nullptr && !attention->causal;
  });
}

int Model::vocabulary() const {
  for (const ModelLayer& layer : layers_) {
    const auto* embedding = std::get_if<Embedding>(&layer.spec);
    if (embedding != nullptr && layer.inputs.front() == kSamples) return embedding->vocabulary;
  }
  return 0;
}

int Model::layer_in_need_of_fp32() const {
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const ModelLayer& layer = layers_[l];
    const bool embeds = std::holds_alternative<Embedding>(layer.spec);
    const bool reads_samples =
        std::find(layer.inputs.begin(), layer.inputs.end(), kSamples) != layer.inputs.end();
    if (embeds ? !reads_samples : reads_samples && vocabulary() > 0) return static_cast<int>(l);
  }
  return -1;
}

Shape Model::output_shape(int layer, std::int64_t batch) const {
  return with_samples(outputs_[static_cast<std::size_t>(layer)], batch);
}

std::vector<Shape> Model::input_shapes(int layer, std::int64_t batch) const {
  return shapes_read(this->layer(layer), batch);
}

std::vector<Shape> Model::shapes_read(const ModelLayer& layer, std::int64_t batch) const {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    const int input = layer.inputs[i];
    const Shape made = input == kSamples ? batch_shape(batch) : output_shape(input, batch);
    if (layer.views.empty() || layer.views[i].rank() == 0) {
      shapes.push_back(made);
      continue;
    }
    shapes.push_back(with_samples(layer.views[i], batch));
    ensure(shapes.back().elements() == made.elements(), "a view has its tensor's elements");
  }
  return shapes;
}

LayerShapes Model::shapes(int layer, std::int64_t batch) const {
  return infer_shapes(this->layer(layer).spec, input_shapes(layer, batch));
}

std::int64_t Model::parameter_count() const {
  std::int64_t count = 0;
  for (int i = 0; i < layer_count(); ++i) count += parameter_count(i);
  return count;
}

std::int64_t Model::parameter_count(int layer) const {
  std::int64_t count = 0;
  for (const ParameterShape& p : shapes(layer, 1).parameters) {
    if (shared_parameter(this->layer(layer), p) == nullptr) count += p.shape.elements();
  }
  return count;
}

double Model::forward_flops(std::int64_t batch) const {
  double flops = 0;
  for (int i = 0; i < layer_count(); ++i) flops += shapes(i, batch).forward_flops;
  return flops;
}

std::uint64_t Model::fingerprint() const {
  const bool imported = std::any_of(layers_.begin(), layers_.end(),
                                    [](const ModelLayer& layer) { return !layer.state.empty(); });
  std::uint64_t hash =
      hash_text(name_ + "\n" + to_string(sample_) + (imported ? "\n" : format(" %d\n", classes_)));
  for (const ModelLayer& layer : layers_) {
    if (imported && is_loss(layer.spec)) continue;
    std::string line = layer.name + " " + std::visit(FullText{}, layer.spec);
    for (int input : layer.inputs) line += format(" <%d", input);
    for (const SharedParameter& shared : layer.shares) {
      line += format(" =%d", shared.owner);
      if (shared.name != "weight" || shared.owner_name != "weight") {
        line += " " + shared.name + " " + shared.owner_name;
      }
    }
    for (const Shape& view : layer.views) line += " " + to_string(view);
    for (const StateTensor& tensor : layer.state) line += " " + tensor.name;
    hash = hash_text(line + "\n", hash);
  }
  return hash;
}

}  // namespace hetpipe
