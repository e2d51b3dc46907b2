// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/import.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/importer.h"
#include "runtime/model/graph/recognise.h"

namespace hetpipe {
namespace {

using graph::Dense;
using graph::Extent;
using graph::Graph;
using graph::Importer;
using graph::Node;
using graph::Tensor;
using graph::Unsupported;

// The state_dict of the folder.
class ExportedValues final : public StateValues {
 public:
  // What `file` lacks is taken from `rest`.
  ExportedValues(std::shared_ptr<const Safetensors> file, std::shared_ptr<const Safetensors> rest)
      : file_(std::move(file)), rest_(std::move(rest)) {}

  std::span<const float> of(const std::string& name) const override {
    const Safetensors& file = file_->find(name) != nullptr ? *file_ : *rest_;
    const TensorInFile& tensor = file.at(name);
    if (tensor.type == "F32" && reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 4 == 0) {
      return {reinterpret_cast<const float*>(tensor.bytes.data()), tensor.bytes.size() / 4};
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, fresh] = converted_.try_emplace(name);
    if (fresh) found->second = file.floats(name);
    return found->second;
  }

 private:
  std::shared_ptr<const Safetensors> file_, rest_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> converted_;
};

// What one sample is to the data: images (H, W, C), tokens (T); several inputs in a row.
Shape sample_of(const Graph& graph) {
  std::int64_t all = 0;
  for (const graph::Input& input : graph.inputs) {
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
  const graph::TensorShape& shape = graph.inputs[0].shape;
  if (shape.size() == 4 && graph.inputs[0].type == "float32") {
    return {shape[2].number, shape[3].number, shape[1].number};
  }
  std::vector<std::int64_t> extents;
  for (std::size_t d = 1; d < shape.size(); ++d) extents.push_back(shape[d].number);
  if (extents.empty()) extents.push_back(1);
  return Shape(std::span<const std::int64_t>(extents));
}

// Classes are the second dimension of images and sequences that PyTorch's loss takes, and the last
// of (N, classes) and (N, T, classes).
int class_dimension(const graph::TensorShape& shape) {
  return shape.size() == 4 ? 1 : static_cast<int>(shape.size()) - 1;
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
bool has_classes(const graph::TensorShape& output) {
  return output.size() >= 2 && at(output, class_dimension(output)).number >= 2;
}

std::string loss_of(const LossChoice& choice, const graph::TensorShape& output) {
  if (output.empty()) {
    throw UserError("model",
                    "returns one number, a loss of its own (which is not supported yet). "
                    "Export it so that it returns its predictions, and choose --loss.");
  }
  if (choice.name == kAnyLoss) return has_classes(output) ? "cross-entropy" : "mse";
  const std::string loss = choice.name == kAutomaticLoss ? "cross-entropy" : choice.name;
  if (loss == "cross-entropy" && !has_classes(output)) {
    throw UserError("--loss cross-entropy", "needs an output of two classes or more; this one is " +
                                                graph::to_string(output) +
                                                ". Choose another --loss: " +
                                                join(loss_names(), ", ") + ".");
  }
  if (loss != "cross-entropy" && regressions().count(loss) == 0) {
    throw UserError("--loss", unknown("loss", loss, loss_names()) + ". Choose a known one.");
  }
  return loss;
}

// The dimensions of a prediction, as its loss reads them: classes innermost; images of numbers with
// their channels innermost, others as they are.
std::vector<int> order_read(const graph::TensorShape& output, bool classes) {
  const int dim = classes ? class_dimension(output) : output.size() == 4 ? 1 : 0;
  std::vector<int> inner;
  for (int d = 1; d < static_cast<int>(output.size()); ++d) {
    if (d != dim) inner.push_back(d);
  }
  if (dim > 0) inner.push_back(dim);
  return inner;
}

// A loss, and what it reads.
struct LossTerm {
  LayerSpec loss;
  Dense prediction;
  Shape read;  // of all samples
};

LossTerm term_of(Importer& importer, const Node& node, const LossChoice& choice,
                 const Tensor& output) {
  const std::string loss = loss_of(choice, output.shape);
  const bool classes = loss == "cross-entropy";
  const std::vector<int> inner = order_read(output.shape, classes);
  const Dense dense = importer.lay_out(node, output, inner);
  std::int64_t elements = 1;
  for (const int d : inner) elements *= at(output.shape, d).number;
  if (!classes) return {regressions().at(loss), dense, Shape{dense.rows, elements}};
  const std::int64_t count = at(output.shape, inner.back()).number;
  if (!choice.class_weights.empty() &&
      static_cast<std::int64_t>(choice.class_weights.size()) != count) {
    throw UserError("--class-weights",
                    format("%zu numbers, where the model has %lld classes. Give one for each.",
                           choice.class_weights.size(), static_cast<long long>(count)));
  }
  const SoftmaxCrossEntropy spec{
      .skips = choice.skips,
      .class_weights = ConstantTable<float>(
          std::vector<float>(choice.class_weights.begin(), choice.class_weights.end()))};
  return {spec, dense,
          elements == count ? Shape{dense.rows, count} : Shape{dense.rows, elements / count, count}};
}

void add_loss(Importer& importer, const ImportOptions& options, const Tensor& output) {
  Node node;
  node.name = node.op = node.module = "loss";
  const LossTerm term = term_of(importer, node, options.loss, output);
  importer.add(node, term.loss, {term.prediction}, {term.read});
}

// Tensors of the file that the model lacks, and the other way round, and those of other shapes.
void check_initial(const Graph& graph, const Safetensors& file, const ImportOptions& options) {
  Problems problems;
  const std::string where = file.path().string();
  std::map<std::string, const graph::State*> known;
  for (const graph::State& state : graph.state) {
    known[state.name] = &state;
    const TensorInFile* const tensor = file.find(state.name);
    if (tensor == nullptr) {
      const bool needed = state.same_as.empty() && state.type == "float32" && options.whole_init;
      if (needed) {
        problems.add(where, "lacks '" + state.name + "' (of model '" + graph.name +
                                "'). Give a whole state_dict, or --init-partial.");
      }
    } else if (state.same_as.empty() && tensor->shape != state.shape) {
      problems.add(where, "holds '" + state.name + "' in another shape than model '" + graph.name +
                              "' has. Give weights of this model.");
    }
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (known.count(name) == 0 && options.whole_init) {
      problems.add(where, "holds '" + name + "', which model '" + graph.name +
                              "' does not have. Give its own state_dict, or --init-partial.");
    }
  }
  problems.throw_if_any();
}

// The model without layers that the loss does not need.
Model pruned(const Model& model) {
  std::vector<bool> needed(at(model.layer_count()), false);
  needed.back() = true;
  for (int l = model.layer_count() - 1; l >= 0; --l) {
    if (!needed[at(l)]) continue;
    for (const int input : model.layer(l).inputs) {
      if (input != kSamples) needed[at(input)] = true;
    }
    for (const SharedParameter& shared : model.layer(l).shares) needed[at(shared.owner)] = true;
  }
  Model result(model.name(), model.sample_shape(), model.classes());
  std::vector<int> number(at(model.layer_count()), kSamples);
  for (int l = 0; l < model.layer_count(); ++l) {
    if (!needed[at(l)]) continue;
    ModelLayer layer = model.layer(l);
    for (int& input : layer.inputs) input = input == kSamples ? input : number[at(input)];
    for (SharedParameter& shared : layer.shares) shared.owner = number[at(shared.owner)];
    number[at(l)] = result.add(std::move(layer));
  }
  result.set_initial(model.initial());
  return result;
}

// Everything that draws passes on what it is given.
void without_dropout(Graph& graph) {
  for (Node& node : graph.nodes) {
    Json& attributes = node.attributes;
    if (node.op == "dropout" || node.op == "alpha_dropout" || node.op == "feature_dropout" ||
        node.op == "stochastic_depth") {
      attributes["p"] = 0.0;
    } else if (node.op == "scaled_dot_product_attention") {
      attributes["dropout_p"] = 0.0;
    } else if (node.op == "lstm" || node.op == "gru") {
      attributes["dropout"] = 0.0;
    }
  }
}

int classes_of(const LossChoice& choice, const graph::TensorShape& output) {
  if (loss_of(choice, output) != "cross-entropy") return 0;
  return static_cast<int>(at(output, class_dimension(output)).number);
}

graph::TensorShape output_shape(const Graph& graph) {
  const std::string& value = graph.outputs.front().value;
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

Graph read_with_outputs(const std::filesystem::path& folder) {
  Graph graph = graph::read_graph(folder);
  if (graph.outputs.empty()) {
    throw UserError((folder / "graph.json").string(),
                    "has no output. Export a model that returns a tensor.");
  }
  return graph;
}

}  // namespace

std::vector<std::string> loss_names() {
  return {kAutomaticLoss, "cross-entropy", "mse", "l1", "smooth-l1", "bce"};
}

bool is_exported_model(const std::string& name) { return graph::is_graph(name); }

std::string exported_name(const std::filesystem::path& folder) {
  return graph::read_graph(folder).name;
}

ExportedSamples exported_samples(const std::filesystem::path& folder, const LossChoice& loss) {
  const Graph graph = read_with_outputs(folder);
  const graph::TensorShape output = output_shape(graph);
  ExportedSamples samples;
  for (const graph::Input& input : graph.inputs) {
    ExportedInput& one = samples.inputs.emplace_back();
    one.name = input.name;
    one.tokens = input.type != "float32";
    for (std::size_t d = 1; d < input.shape.size(); ++d) {
      one.shape.push_back(input.shape[d].number);
    }
  }
  const Shape whole = sample_of(graph);
  for (int d = 0; d < whole.rank(); ++d) samples.sample_shape.push_back(whole[d]);
  samples.classes = classes_of(loss, output);
  samples.labels = samples.classes > 0 ? ExportedSamples::Labels::classes
                                       : ExportedSamples::Labels::numbers;
  for (int d = 1; d < static_cast<int>(output.size()); ++d) {
    if (samples.classes == 0 || d != class_dimension(output)) {
      samples.labels_shape.push_back(at(output, d).number);
    }
  }
  return samples;
}

Model import_model(const std::filesystem::path& folder, const ImportOptions& options) {
  Graph graph = read_with_outputs(folder);
  graph::recognise(graph);
  if (!options.dropout) without_dropout(graph);
  const graph::TensorShape output = output_shape(graph);
  Model model(graph.name, sample_of(graph), classes_of(options.loss, output));
  Importer importer(graph, model);
  importer.lower({graph.outputs.front().value});
  add_loss(importer, options, importer.value(graph.outputs.front().value));
  std::shared_ptr<const Safetensors> weights = graph.weights;
  if (!options.init.empty()) {
    weights = std::make_shared<Safetensors>(options.init);
    check_initial(graph, *weights, options);
  }
  model.set_initial(std::make_shared<ExportedValues>(weights, graph.weights));
  Model result = pruned(model);
  result.check_complete();
  return result;
}

}  // namespace hetpipe
