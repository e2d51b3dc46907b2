// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/zoo_graphs.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/dnn/attention.h"
#include "kernels/cuda/dnn/convolution.h"
#include "runtime/model/zoo.h"
#include "runtime/model/zoo_text.h"

namespace hetpipe::cuda {
namespace {

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

Model at_usual_size(const std::string& name) {
  const std::vector<std::string> texts = text_model_names();
  if (std::find(texts.begin(), texts.end(), name) != texts.end()) {
    if (name == "gpt2") return make_model(name, {1024}, 50257);
    if (name == "bert-base") return make_model(name, {512}, 30522);
    return make_model(name, {128}, 65);
  }
  if (starts_with(name, "inception")) return make_model(name, {299, 299, 3}, 1000);
  if (starts_with(name, "lenet") || name == "mlp" || name == "snn-mlp") {
    return make_model(name, {28, 28, 1}, 10);
  }
  if (name == "resnet-8" || name == "resnet-14" || name == "resnet-20") {
    return make_model(name, {32, 32, 3}, 10);
  }
  return make_model(name, {224, 224, 3}, 1000);
}

// The type of the last memory, which is what most graphs write.
std::string result_of(const Graph& graph) {
  const std::string layout = to_string(graph.layout(graph.memories().back()));
  return layout.substr(0, layout.find(' '));
}

template <class Spec>
void for_each(const Model& model, const std::function<void(int, const Spec&)>& visit) {
  for (int i = 0; i < model.layer_count(); ++i)
    if (const Spec* spec = std::get_if<Spec>(&model.layer(i).spec)) visit(i, *spec);
}

}  // namespace

std::vector<Model> zoo_models() {
  std::vector<Model> models;
  for (const std::string& name : model_names()) models.push_back(at_usual_size(name));
  return models;
}

void ZooPlanner::add(const Model& model, int layer, const char* direction, const MakePlan& make) {
  const std::string use = model.name() + " " + model.layer(layer).name + " " + direction;
  try {
    std::shared_ptr<const Plan> plan = make();
    if (!seen_.insert(plan.get()).second) return;
    const Graph& graph = plan->graph();
    planned_.push_back({use + " to " + result_of(graph),
                        to_string(model.layer(layer).spec) + " " +
                            to_string(model.input_shapes(layer, batch_).front()),
                        std::move(plan)});
  } catch (const SystemError& e) {
    failures_.push_back(use + ": " + e.what());
  }
}

void ZooPlanner::convolutions(const Model& model) {
  for_each<Convolution>(model, [&](int i, const Convolution& spec) {
    ConvolutionPlans plans(context_, spec, model.input_shapes(i, batch_).front(), precision_);
    add(model, i, "forward", [&] { return plans.forward_plan(); });
    if (std::holds_alternative<Relu>(model.layer(i + 1).spec)) {
      ConvolutionPlans rectified(context_, spec, model.input_shapes(i, batch_).front(), precision_,
                                 Activation::relu);
      add(model, i, "forward and relu", [&] { return rectified.forward_plan(); });
    }
    add(model, i, "weight gradient", [&] { return plans.weight_gradient_plan(); });
    if (model.layer(i).inputs.front() == kSamples) return;  // nobody asks for its input gradient
    add(model, i, "input gradient", [&] { return plans.input_gradient_plan(); });
  });
}

void ZooPlanner::attentions(const Model& model) {
  for_each<SelfAttention>(model, [&](int i, const SelfAttention& spec) {
    AttentionPlans plans(context_, spec, model.input_shapes(i, batch_).front(), precision_);
    add(model, i, "forward", [&] { return plans.forward_plan(); });
    add(model, i, "backward", [&] { return plans.backward_plan(); });
  });
}

std::size_t ZooPlanner::largest_workspace() const {
  std::size_t largest = 0;
  for (const PlannedGraph& graph : planned_) largest = std::max(largest, graph.plan->workspace());
  return largest;
}

std::string ZooPlanner::table() const {
  Table table({"graph", "layer", "workspace", "engine and knobs"});
  for (const PlannedGraph& graph : planned_) {
    table.add({graph.use, graph.layer, format_bytes(static_cast<double>(graph.plan->workspace())),
               "engine " + to_string(graph.plan->choice())});
  }
  return table.text();
}

}  // namespace hetpipe::cuda
