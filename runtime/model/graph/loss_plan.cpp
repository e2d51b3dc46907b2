// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/loss_plan.h"

#include <algorithm>
#include <map>

#include "base/index.h"
#include "base/text.h"
#include "kernels/joint_loss.h"
#include "runtime/model/graph/own_loss.h"

namespace hetpipe {

std::vector<std::string> loss_names() {
  return {kAutomaticLoss, "cross-entropy", "mse", "l1", "smooth-l1", "bce", kOwnLoss};
}

}  // namespace hetpipe

namespace hetpipe::graph {
namespace {

// Classes are the second dimension of images and sequences that PyTorch's loss takes, and the last
// of (N, classes) and (N, T, classes).
int class_dimension(const TensorShape& shape) {
  return shape.size() == 4 ? 1 : static_cast<int>(shape.size()) - 1;
}

TensorShape shape_of(const Graph& graph, const std::string& value) {
  const std::size_t colon = value.rfind(':');
  const std::size_t i = colon == std::string::npos ? 0 : std::stoul(value.substr(colon + 1));
  for (const Node& node : graph.nodes) {
    if (node.name == value.substr(0, colon)) return node.shapes.at(i);
  }
  throw UserError((graph.folder / "graph.json").string(),
                  "its output '" + value +
                      "' is no node (nothing would be computed). Export "
                      "another model.");
}

std::vector<float> constant_values(const Graph& graph, const std::string& name) {
  if (graph.constants != nullptr && graph.constants->find(name) != nullptr) {
    return graph.constants->floats(name);
  }
  return graph.weights->floats(name);
}

// (N): of each sample the mean of all elements.
Dense mean_of_samples(Importer& importer, const Node& node, const Tensor& tensor) {
  std::vector<int> inner;
  for (int d = 1; d < tensor.rank(); ++d) inner.push_back(d);
  const Dense dense = importer.lay_out(node, tensor, inner);
  std::int64_t elements = dense.rows;
  for (const int d : inner) elements *= at(tensor.shape, d).number;
  const int layer =
      importer.add(node,
                   Reduce{.kind = Reduce::Kind::mean,
                          .from = {.source = Source::input, .index = 0, .strides = {1}},
                          .kept = {},
                          .reduced = {elements}},
                   std::vector<int>{dense.leaf.layer}, std::vector<std::string>{});
  Dense mean;
  mean.layout.dimensions = {Dimension{Atom{1, 0, 0, true}}};
  mean.leaf = leaf_of(layer, mean.layout);
  return mean;
}

const std::map<std::string, RegressionLoss>& regressions() {
  static const std::map<std::string, RegressionLoss> kAll{
      {"mse", {RegressionLoss::Kind::squared}},
      {"l1", {RegressionLoss::Kind::absolute}},
      {"smooth-l1", {RegressionLoss::Kind::smooth_l1}},
      {"bce", {RegressionLoss::Kind::binary_with_logits}}};
  return kAll;
}

// At least two.
bool has_classes(const TensorShape& output) {
  return output.size() >= 2 && at(output, class_dimension(output)).number >= 2;
}

// Of a network that returns predictions.
std::string loss_of(const LossChoice& choice, const TensorShape& output) {
  if (choice.name == kAnyLoss) return has_classes(output) ? "cross-entropy" : "mse";
  const std::string loss = choice.name == kAutomaticLoss ? "cross-entropy" : choice.name;
  if (loss == "cross-entropy" && !has_classes(output)) {
    throw UserError("--loss cross-entropy",
                    "needs an output of two classes or more; this one is " + to_string(output) +
                        ". Choose another --loss: " + join(loss_names(), ", ") + ".");
  }
  if (loss != "cross-entropy" && regressions().count(loss) == 0) {
    throw UserError("--loss",
                    loss == kOwnLoss
                        ? "output is for a model that returns one number (this output is " +
                              to_string(output) + "). Choose another."
                        : unknown("loss", loss, loss_names()) + ". Choose a known one.");
  }
  return loss;
}

// The dimensions of a prediction, as its loss reads them: that of classes (-1: it has none)
// innermost; images of numbers with their channels innermost, others as they are.
std::vector<int> order_read(const TensorShape& output, int classes) {
  const int dim = classes >= 0 ? classes : output.size() == 4 ? 1 : 0;
  std::vector<int> inner;
  for (int d = 1; d < static_cast<int>(output.size()); ++d) {
    if (d != dim) inner.push_back(d);
  }
  if (dim > 0) inner.push_back(dim);
  return inner;
}

ConstantTable<float> table_of(const std::vector<double>& values) {
  return ConstantTable<float>(std::vector<float>(values.begin(), values.end()));
}

// The first output by the loss that was chosen, further ones by the same with their weights.
void plan_chosen(const Graph& graph, const LossChoice& choice, LossPlan& plan) {
  if (choice.auxiliary.size() >= graph.outputs.size()) {
    throw UserError("--auxiliary-weights",
                    format("%zu weights, where the model has %zu outputs beside the first. Give "
                           "as many or fewer.",
                           choice.auxiliary.size(), graph.outputs.size() - 1));
  }
  for (std::size_t i = 0; i <= choice.auxiliary.size(); ++i) {
    const TensorShape output = shape_of(graph, graph.outputs[i].value);
    LossPlan::Term term{.value = graph.outputs[i].value, .loss = loss_of(choice, output)};
    if (i > 0) term.weight = static_cast<float>(choice.auxiliary[i - 1]);
    SampleFormat::Labels labels{.ignore_index = choice.ignore_index};
    term.dim = class_dimension(output);
    if (term.loss == "cross-entropy") {
      term.classes = {.skips = choice.skips, .class_weights = table_of(choice.class_weights)};
      labels.classes = static_cast<int>(at(output, term.dim).number);
      if (!choice.class_weights.empty() &&
          static_cast<int>(choice.class_weights.size()) != labels.classes) {
        throw UserError("--class-weights",
                        format("%zu numbers, where the model has %d classes. Give one for each.",
                               choice.class_weights.size(), labels.classes));
      }
    } else {
      labels.numbers = true;
    }
    for (int d = 1; d < static_cast<int>(output.size()); ++d) {
      if (labels.numbers || d != term.dim) labels.shape.push_back(at(output, d).number);
    }
    if (i == 0) plan.samples.labels.push_back(labels);
    const SampleFormat::Labels& first = plan.samples.labels.front();
    if (labels.shape != first.shape || labels.numbers != first.numbers) {
      throw UserError("--auxiliary-weights", "output '" + graph.outputs[i].name + "' " +
                                                 to_string(output) +
                                                 " has other labels than the first output. Leave "
                                                 "its weight out.");
    }
    if (term.weight != 0 || i == 0) plan.terms.push_back(term);
  }
}

// The model's own.
void plan_own(Graph& graph, const LossChoice& choice, LossPlan& plan) {
  if (!choice.class_weights.empty() || !choice.auxiliary.empty()) {
    throw UserError(choice.class_weights.empty() ? "--auxiliary-weights" : "--class-weights",
                    "has no effect on the model's own loss. Leave it out.");
  }
  std::vector<LabelSource> parts;
  for (const OwnTerm& own : own_terms(graph, graph.outputs.front().value)) {
    LossPlan::Term term{.weight = static_cast<float>(own.weight), .value = own.value};
    term.loss = own.cross_entropy ? "cross-entropy" : kOwnLoss;
    if (own.cross_entropy) {
      term.dim = 1;
      term.classes = {.smoothing = own.smoothing, .skips = choice.skips};
      if (!own.class_weights.empty()) {
        term.classes.class_weights =
            ConstantTable<float>(constant_values(graph, own.class_weights));
      }
      const auto found = std::find(parts.begin(), parts.end(), own.labels);
      term.labels = static_cast<int>(found - parts.begin());
      if (found == parts.end()) {
        parts.push_back(own.labels);
        SampleFormat::Labels labels{
            .name = own.labels.input,
            .classes = static_cast<int>(shape_of(graph, own.value).at(1).number),
            .ignore_index = own.ignore_index,
            .from = own.labels.from};
        for (const Input& input : graph.inputs) {
          if (input.name != own.labels.input) continue;
          for (std::size_t d = 1; d < input.shape.size(); ++d) {
            labels.shape.push_back(input.shape[d].number);
          }
        }
        plan.samples.labels.push_back(labels);
      }
    }
    plan.terms.push_back(term);
  }
  const auto weighs = [](const LossPlan::Term& term) {
    return term.classes.skips || !term.classes.class_weights.empty();
  };
  const auto first = std::find_if(plan.terms.begin(), plan.terms.end(), weighs);
  for (auto term = first; term != plan.terms.end(); ++term) {
    if (!weighs(*term) || (term->labels == first->labels &&
                           term->classes.class_weights == first->classes.class_weights)) {
      continue;
    }
    throw UserError("model",
                    "has several losses whose labels are ignored or weighed, each in its "
                    "own way (which is not supported). Export it with one of these.");
  }
}

// A term as a layer, and what it reads, of one sample.
struct LossTerm {
  LayerSpec loss;
  Dense prediction;
  Shape read;
};

LossTerm term_of(Importer& importer, const Node& node, const LossPlan::Term& term) {
  const Tensor output = importer.value(term.value);
  if (term.loss == kOwnLoss) {
    const Dense mean = mean_of_samples(importer, node, output);
    return {OutputLoss{}, mean, Shape{1}};
  }
  const bool classes = term.loss == "cross-entropy";
  const std::vector<int> inner = order_read(output.shape, classes ? term.dim : -1);
  const Dense dense = importer.lay_out(node, output, inner);
  std::int64_t elements = dense.rows;
  for (const int d : inner) elements *= at(output.shape, d).number;
  if (!classes) return {regressions().at(term.loss), dense, Shape{1, elements}};
  const std::int64_t count = at(output.shape, term.dim).number;
  return {term.classes, dense,
          elements == count ? Shape{1, count} : Shape{1, elements / count, count}};
}

}  // namespace

Shape sample_of(const Graph& graph) {
  std::int64_t all = 0;
  for (const Input& input : graph.inputs) {
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d].samples != (d == 0) || (d == 0 && input.shape[d].number != 1)) {
        throw UserError((graph.folder / "graph.json").string(),
                        "input '" + input.name + "' of shape " + to_string(input.shape) +
                            " (the number of samples is its first extent and no other). Export a "
                            "model whose inputs begin with the batch.");
      }
      elements *= input.shape[d].number;
    }
    all += elements;
  }
  if (graph.inputs.size() != 1) return {all};
  const TensorShape& shape = graph.inputs[0].shape;
  if (shape.size() == 4 && graph.inputs[0].type == "float32") {
    return {shape[2].number, shape[3].number, shape[1].number};
  }
  std::vector<std::int64_t> extents;
  for (std::size_t d = 1; d < shape.size(); ++d) extents.push_back(shape[d].number);
  if (extents.empty()) extents.push_back(1);
  return Shape(std::span<const std::int64_t>(extents));
}

LossPlan plan_loss(Graph& graph, const LossChoice& choice) {
  LossPlan plan;
  if (shape_of(graph, graph.outputs.front().value).empty()) {
    if (choice.name != kAutomaticLoss && choice.name != kAnyLoss && choice.name != kOwnLoss) {
      throw UserError("--loss", choice.name +
                                    " needs predictions (the model returns one number, a "
                                    "loss of its own). Leave --loss out.");
    }
    plan_own(graph, choice, plan);
  } else {
    plan_chosen(graph, choice, plan);
  }
  graph.inputs = inputs_needed(graph, plan.values());
  for (const SampleFormat::Labels& labels : plan.samples.labels) {
    if (plan.classes == 0) plan.classes = labels.classes;
  }
  for (const Input& input : graph.inputs) {
    SampleFormat::Input& one = plan.samples.inputs.emplace_back();
    one.name = input.name;
    one.tokens = input.type != "float32";
    for (std::size_t d = 1; d < input.shape.size(); ++d) {
      one.shape.push_back(input.shape[d].number);
    }
  }
  const Shape whole = sample_of(graph);
  for (int d = 0; d < whole.rank(); ++d) plan.samples.sample_shape.push_back(whole[d]);
  return plan;
}

void add_loss(Importer& importer, const LossPlan& plan) {
  Node node;
  node.name = node.op = node.module = "loss";
  JointLoss joint;
  std::vector<Dense> inputs;
  std::vector<Shape> views;
  for (const LossPlan::Term& term : plan.terms) {
    const LossTerm one = term_of(importer, node, term);
    JointLoss::Term& made = joint.terms.emplace_back();
    made.weight = term.weight;
    made.labels = term.labels;
    std::visit(
        [&](const auto& loss) {
          if constexpr (std::is_assignable_v<decltype(made.loss)&, decltype(loss)>)
            made.loss = loss;
        },
        one.loss);
    inputs.push_back(one.prediction);
    views.push_back(one.read);
  }
  if (joint.terms.size() == 1 && joint.terms[0].weight == 1) {
    importer.add(node, loss_of(joint.terms[0]), inputs, views);
    return;
  }
  for (const SampleFormat::Labels& labels : plan.samples.labels) {
    joint.label_sizes.push_back(labels.count());
  }
  importer.add(node, joint, inputs, views);
}

}  // namespace hetpipe::graph
