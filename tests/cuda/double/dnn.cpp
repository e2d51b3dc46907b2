// SPDX-License-Identifier: Apache-2.0
#include <cudnn.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/dnn/planner.h"
#include "tests/cuda/double/double.h"
#include "tests/cuda/graph_on_host.h"

// cuDNN as a library that takes every descriptor, and plans that compute their graph on the host,
// in double, when their stream comes to them. A plan wants a workspace, as most do.
namespace hetpipe::cuda {
namespace {

constexpr std::size_t kWorkspace = 1000;
constexpr std::size_t kAlignment = 16;  // of everything that a plan is given

ElementType type_of(const Layout& layout) {
  return layout.type == CUDNN_DATA_BFLOAT16 ? ElementType::bf16
         : layout.type == CUDNN_DATA_HALF   ? ElementType::fp16
                                            : ElementType::fp32;
}

// visit(i) for the places, in elements from the first, of all that the layout names.
template <class Visit>
void for_each_element(const Layout& layout, const Visit& visit) {
  const Extents &e = layout.extents, &s = layout.steps;
  ensure(e.size() == 4, "tensors of four extents");
  for (std::int64_t a = 0; a < e[0]; ++a)
    for (std::int64_t b = 0; b < e[1]; ++b)
      for (std::int64_t c = 0; c < e[2]; ++c)
        for (std::int64_t d = 0; d < e[3]; ++d) visit(a * s[0] + b * s[1] + c * s[2] + d * s[3]);
}

// What is multiplied, and so rounded where a card does so; and what is written.
struct Roles {
  std::set<Graph::Tensor> factors, written;

  explicit Roles(const Graph& graph) {
    using Kind = Graph::Kind;
    for (const Graph::Operation& operation : graph.operations()) {
      const bool product =
          operation.kind == Kind::convolution || operation.kind == Kind::convolution_data ||
          operation.kind == Kind::convolution_filter || operation.kind == Kind::product;
      if (product) factors.insert(operation.inputs.begin(), operation.inputs.end());
      written.insert(operation.outputs.begin(), operation.outputs.end());
    }
  }
};

void compute(const Graph& graph, Precision precision, const std::vector<void*>& memories) {
  const Roles roles(graph);
  const std::vector<Graph::Tensor> tensors = graph.memories();
  std::vector<std::vector<double>> values;
  std::vector<double*> pointers;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Layout& layout = graph.layout(tensors[i]);
    const ElementType type = type_of(layout);
    auto& own = values.emplace_back(layout.bytes() / bytes_of(type));
    for_each_element(layout, [&](std::int64_t at) {
      const double value = stand_in::element(memories[i], type, at);
      own[static_cast<std::size_t>(at)] =
          roles.factors.contains(tensors[i]) ? stand_in::rounded_factor(value, precision) : value;
    });
  }
  for (auto& own : values) pointers.push_back(own.data());
  compute_on_host(graph, pointers);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!roles.written.contains(tensors[i])) continue;
    const Layout& layout = graph.layout(tensors[i]);
    for_each_element(layout, [&](std::int64_t at) {
      stand_in::set_element(memories[i], type_of(layout), at,
                            values[i][static_cast<std::size_t>(at)]);
    });
  }
}

// Of the result, which is the last memory.
void lose_nans(const Graph& graph, void* result) {
  const Layout& layout = graph.layout(graph.memories().back());
  for_each_element(layout, [&](std::int64_t at) {
    if (std::isnan(stand_in::element(result, type_of(layout), at))) {
      stand_in::set_element(result, type_of(layout), at, 0);
    }
  });
}

}  // namespace

// What the library recommends, in its order; a choice's engine is one of these, its one knob says
// how factors are rounded.
enum Engine : std::int64_t { greedy, broken, careless, plain, another };

std::vector<Engine> recommended() {
  const char* const text = std::getenv("HETPIPE_DOUBLE_ENGINES");
  if (text == nullptr) return {plain};
  if (std::string(text) == "none") return {};
  return {greedy, broken, careless, plain, another};
}

std::string to_string(const EngineChoice& choice) {
  std::string text = std::to_string(choice.engine);
  for (const auto& [type, value] : choice.knobs) {
    text += " " + std::to_string(type) + "=" + std::to_string(value);
  }
  return text;
}
std::optional<EngineChoice> try_parse_engine_choice(const std::string& text) {
  EngineChoice choice;
  long long engine = 0, type = 0, value = 0;
  if (std::sscanf(text.c_str(), "%lld %lld=%lld", &engine, &type, &value) != 3) return std::nullopt;
  choice.engine = engine;
  choice.knobs = {{type, value}};
  return choice;
}

void visit_recommended(const PlanTarget&, const Graph&, const Descriptor&, const EngineRules& rules,
                       bool fp32_data, const std::function<bool(const EngineChoice&)>& enough) {
  const auto rounding = static_cast<std::int64_t>(
      fp32_data && rules.tensor_cores ? Precision::tf32 : Precision::fp32);
  for (const Engine engine : recommended()) {
    if (enough({.engine = engine, .knobs = {{0, rounding}}})) return;
  }
}

std::optional<Plan> Plan::try_make(const PlanTarget&, std::shared_ptr<const Graph> graph,
                                   const Descriptor&, const EngineChoice& choice, std::string&) {
  Plan plan;
  plan.graph_ = std::move(graph);
  plan.choice_ = choice;
  plan.workspace_ = choice.engine == greedy ? std::size_t{1} << 40 : kWorkspace;
  return plan;
}

void Plan::run(cudnnHandle_t, cudaStream_t stream, std::span<void* const> memories,
               void* workspace) const {
  const std::vector<Graph::Tensor> tensors = graph_->memories();
  ensure(memories.size() == tensors.size(), "one pointer for each memory of a graph");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    stand_in::check_inside(format("memory %zu of %s", i, graph_->name().c_str()).c_str(),
                           memories[i], graph_->layout(tensors[i]).bytes(), kAlignment);
  }
  if (choice_.engine == broken)
    throw SystemError("cuDNN's double: an engine that does not run here");
  stand_in::need_code("plan " + graph_->key());
  stand_in::use_workspace(stream, workspace, workspace_);
  stand_in::count(stand_in::Counted::plan);
  stand_in::enqueue(stream, [graph = graph_, engine = choice_.engine,
                             precision = static_cast<Precision>(choice_.knobs.front().second),
                             own = std::vector<void*>(memories.begin(), memories.end())] {
    compute(*graph, precision, own);
    if (engine == careless && graph->may_lose_nans()) lose_nans(*graph, own.back());
  });
}

}  // namespace hetpipe::cuda

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "no failure"; }
void cudnnGetLastErrorString(char* text, std::size_t size) {
  if (size > 0) *text = 0;
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(new int(0));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* descriptor) {
  *descriptor = new int(0);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete static_cast<int*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, std::int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, std::int64_t,
                                       std::int64_t* count, void*) {
  *count = 0;
  return CUDNN_STATUS_NOT_SUPPORTED;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }

}  // extern "C"
