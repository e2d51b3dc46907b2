// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/import.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/importer.h"
#include "runtime/model/graph/loss_plan.h"
#include "runtime/model/graph/recognise.h"
#include "runtime/model/initial_state.h"

namespace hetpipe {
namespace {

using graph::Graph;
using graph::Importer;
using graph::LossPlan;
using graph::Node;

// The state_dict of the folder.
class ExportedValues final : public StateValues {
 public:
  // What `file` lacks, and `skipped` of it, is taken from `rest`.
  ExportedValues(std::shared_ptr<const Safetensors> file, std::shared_ptr<const Safetensors> rest,
                 std::vector<std::string> skipped)
      : file_(std::move(file)), rest_(std::move(rest)), skipped_(std::move(skipped)) {}

  std::span<const float> of(const std::string& name) const override {
    const bool skips = std::ranges::find(skipped_, name) != skipped_.end();
    const Safetensors& file = !skips && file_->find(name) != nullptr ? *file_ : *rest_;
    const TensorInFile& tensor = file.at(name);
    if (tensor.type == "F32" && reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % 4 == 0) {
      return {reinterpret_cast<const float*>(tensor.bytes.data()), tensor.bytes.size() / 4};
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [found, fresh] = converted_.try_emplace(name);
    if (fresh) found->second = file.floats(name);
    return found->second;
  }

  std::string remark() const override { return not_taken(file_->path().string(), skipped_); }

 private:
  std::shared_ptr<const Safetensors> file_, rest_;
  std::vector<std::string> skipped_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<float>> converted_;
};

// Tensors of the file that the model lacks, and the other way round, and those of other shapes.
// Returns those that the file has for other classes, which the model keeps as it was exported.
std::vector<std::string> check_initial(const Graph& graph, const Safetensors& file,
                                       const ImportOptions& options, int classes) {
  std::vector<std::string> skipped;
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
    } else if (differs_in_classes(tensor->shape, state.shape, classes)) {
      skipped.push_back(state.name);
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
  return skipped;
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

Graph read_with_outputs(const std::filesystem::path& folder) {
  Graph graph = graph::read_graph(folder);
  if (graph.outputs.empty()) {
    throw UserError((folder / "graph.json").string(),
                    "has no output. Export a model that returns a tensor.");
  }
  return graph;
}

}  // namespace

bool is_exported_model(const std::string& name) { return graph::is_graph(name); }

std::string exported_name(const std::filesystem::path& folder) {
  return graph::read_graph(folder).name;
}

SampleFormat exported_samples(const std::filesystem::path& folder, const LossChoice& loss) {
  Graph graph = read_with_outputs(folder);
  return plan_loss(graph, loss).samples;
}

Model import_model(const std::filesystem::path& folder, const ImportOptions& options) {
  Graph graph = read_with_outputs(folder);
  const LossPlan plan = plan_loss(graph, options.loss);
  graph::recognise(graph);
  if (!options.dropout) without_dropout(graph);
  Model model(graph.name, graph::sample_of(graph), plan.classes);
  Importer importer(graph, model);
  importer.lower(plan.values());
  add_loss(importer, plan);
  std::shared_ptr<const Safetensors> weights = graph.weights;
  std::vector<std::string> skipped;
  if (!options.init.empty()) {
    weights = std::make_shared<Safetensors>(options.init);
    skipped = check_initial(graph, *weights, options, plan.classes);
  }
  model.set_initial(std::make_shared<ExportedValues>(weights, graph.weights, std::move(skipped)));
  Model result = pruned(model);
  result.check_complete();
  return result;
}

}  // namespace hetpipe
