// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "base/error.h"
#include "base/safetensors.h"
#include "launch/checkpoint/tensor_file.h"
#include "runtime/model/graph/graph.h"

namespace hetpipe {
namespace {

constexpr std::string_view kTracked = "num_batches_tracked";

std::map<std::string, const NamedTensor*> by_state_name(const Checkpoint& checkpoint) {
  std::map<std::string, const NamedTensor*> all;
  for (const auto* tensors : {&checkpoint.parameters, &checkpoint.statistics}) {
    for (const NamedTensor& tensor : *tensors) {
      std::string name = tensor.name;
      for (char& c : name) c = c == '/' ? '.' : c;
      all[name] = &tensor;
    }
  }
  return all;
}

}  // namespace

std::vector<ExportTensor> state_dict_of(const Checkpoint& checkpoint, const std::string& where,
                                        const std::filesystem::path& model) {
  const graph::Graph graph = graph::read_graph(model);
  if (graph.name != checkpoint.model) {
    throw UserError(where, "is of model '" + checkpoint.model + "' (" + model.string() +
                               " holds '" + graph.name + "'). Give the model that was trained.");
  }
  const auto trained = by_state_name(checkpoint);
  std::vector<ExportTensor> all;
  for (const graph::State& state : graph.state) {
    const std::string& name = state.same_as.empty() ? state.name : state.same_as;
    const auto found = trained.find(name);
    if (found != trained.end()) {
      all.push_back({state.name, found->second->shape, found->second->values});
      continue;
    }
    const TensorInFile& tensor = graph.weights->at(name);
    if (name.ends_with(kTracked) && tensor.elements() == 1) {
      all.push_back(
          {.name = state.name,
           .shape = tensor.shape,
           .values = {},
           .integer = graph.weights->integers(name)[0] + checkpoint.minibatches_of_worker()});
      continue;
    }
    all.push_back({.name = state.name,
                   .shape = tensor.shape,
                   .values = {},
                   .integer = {},
                   .type = tensor.type,
                   .bytes = std::string(reinterpret_cast<const char*>(tensor.bytes.data()),
                                        tensor.bytes.size())});
  }
  return all;
}

}  // namespace hetpipe
