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

std::string loss_of(const ImportOptions& options, const graph::TensorShape& output) {
  if (output.empty()) {
    throw UserError("model",
                    "returns one number, a loss of its own (which is not supported yet). "
                    "Export it so that it returns its predictions, and choose --loss.");
  }
  return options.loss != kAutomaticLoss ? options.loss : "cross-entropy";
}

void add_loss(Importer& importer, const ImportOptions& options, const Tensor& output) {
  Node node;
  node.name = "loss";
  node.op = "loss";
  node.module = "loss";
  const std::string loss = loss_of(options, output.shape);
  if (loss == "cross-entropy") {
    const int dim = class_dimension(output.shape);
    if (output.rank() < 2)
      throw UserError("--loss cross-entropy", "needs an output of classes; this one is " +
                                                  to_string(output.shape) +
                                                  ". Choose another loss.");
    std::vector<int> inner;
    for (int d = 1; d < output.rank(); ++d) {
      if (d != dim) inner.push_back(d);
    }
    inner.push_back(dim);
    const Dense dense = importer.lay_out(node, output, inner);
    const std::int64_t classes = at(output.shape, dim).number;
    std::int64_t places = 1;
    for (const int d : inner) places *= d == dim ? 1 : at(output.shape, d).number;
    const Shape view =
        places == 1 ? Shape{dense.rows, classes} : Shape{dense.rows, places, classes};
    importer.add(node, SoftmaxCrossEntropy{}, {dense}, {view});
    return;
  }
  static const std::map<std::string, RegressionLoss> kRegression{
      {"mse", {RegressionLoss::Kind::squared}},
      {"l1", {RegressionLoss::Kind::absolute}},
      {"smooth-l1", {RegressionLoss::Kind::smooth_l1}},
      {"bce", {RegressionLoss::Kind::binary_with_logits}}};
  const auto found = kRegression.find(loss);
  if (found == kRegression.end()) {
    throw UserError("--loss", unknown("loss", loss, loss_names()) + ". Choose a known one.");
  }
  // Targets lie as the output's shape has them; images with their channels innermost.
  std::vector<int> inner;
  if (output.rank() == 4) {
    inner = {2, 3, 1};
  } else {
    for (int d = 1; d < output.rank(); ++d) inner.push_back(d);
  }
  const Dense dense = importer.lay_out(node, output, inner);
  std::int64_t elements = 1;
  for (const int d : inner) elements *= at(output.shape, d).number;
  importer.add(node, found->second, {dense}, {Shape{dense.rows, elements}});
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

int classes_of(const ImportOptions& options, const graph::TensorShape& output) {
  if (loss_of(options, output) != "cross-entropy" || output.size() < 2) return 0;
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

}  // namespace

std::vector<std::string> loss_names() {
  return {kAutomaticLoss, "cross-entropy", "mse", "l1", "smooth-l1", "bce"};
}

bool is_exported_model(const std::string& name) { return graph::is_graph(name); }

std::string exported_name(const std::filesystem::path& folder) {
  return graph::read_graph(folder).name;
}

Model import_model(const std::filesystem::path& folder, const ImportOptions& options) {
  Graph graph = graph::read_graph(folder);
  if (graph.outputs.empty()) {
    throw UserError((folder / "graph.json").string(),
                    "has no output. Export a model that returns a tensor.");
  }
  graph::recognise(graph);
  if (!options.dropout) without_dropout(graph);
  const graph::TensorShape output = output_shape(graph);
  Model model(graph.name, sample_of(graph), classes_of(options, output));
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
