// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/dnn/graph.h"

// A graph with the cuDNN engine chosen for it: what is run.
namespace hetpipe::cuda {

// An engine of a graph and the settings of its knobs; text form "28 2=5 14=3". Means something for
// one graph, kind of card and version of the library.
struct EngineChoice {
  std::int64_t engine = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;  // type, value

  bool operator==(const EngineChoice&) const = default;
};
std::string to_string(const EngineChoice& choice);
std::optional<EngineChoice> try_parse_engine_choice(const std::string& text);

// For whom plans are made: the handle's device, or one that is described (the handle is null).
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;  // of the described device
};

class Plan {
 public:
  // No value, and why in `reason`, where this engine cannot do it.
  static std::optional<Plan> try_make(const PlanTarget& target, std::shared_ptr<const Graph> graph,
                                      const Descriptor& finalized_graph, const EngineChoice& choice,
                                      std::string& reason);

  const EngineChoice& choice() const { return choice_; }
  std::size_t workspace() const { return workspace_; }  // bytes
  const Graph& graph() const { return *graph_; }

  // `memories`: the graph's, in their order; all on the handle's device, as is the workspace.
  void run(cudnnHandle_t handle, cudaStream_t stream, std::span<void* const> memories,
           void* workspace) const;

 private:
  std::shared_ptr<const Graph> graph_;
  EngineChoice choice_;
  Descriptor plan_;
  std::size_t workspace_ = 0;
  std::vector<std::int64_t> identities_;  // of memories, then of constants
  std::vector<void*> constants_;
};

// What may be chosen. Engines that add up in less than fp32 are never taken.
struct EngineRules {
  bool tensor_cores = true;    // for fp32 data: false keeps all of its 23 bits
  bool deterministic = false;  // the same bits from run to run
};

// What the library recommends for a graph, best first by its own models (mode A), then what works
// for most graphs. Each choice once, until `enough` says that it has enough; the second mode is
// asked when the first is used up.
void visit_recommended(const PlanTarget& target, const Graph& graph,
                       const Descriptor& finalized_graph, const EngineRules& rules, bool fp32_data,
                       const std::function<bool(const EngineChoice&)>& enough);

}  // namespace hetpipe::cuda
