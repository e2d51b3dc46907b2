// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/measure.h"
#include "kernels/element.h"

namespace hetpipe::cuda {
namespace {

// Of a graph's memories.
std::vector<std::size_t> sizes_of(const Graph& graph) {
  std::vector<std::size_t> bytes;
  for (const Graph::Tensor tensor : graph.memories()) bytes.push_back(graph.layout(tensor).bytes());
  return bytes;
}
std::vector<void*> blocks_of(const Scratch& scratch, std::size_t count) {
  std::vector<void*> memories;
  for (std::size_t i = 0; i < count; ++i) memories.push_back(scratch.block(i));
  return memories;
}

bool is_nan(std::uint32_t bits, cudnnDataType_t type) {
  const auto half = static_cast<std::uint16_t>(bits);
  return std::isnan(type == CUDNN_DATA_FLOAT  ? std::bit_cast<float>(bits)
                    : type == CUDNN_DATA_HALF ? static_cast<float>(std::bit_cast<Fp16>(half))
                                              : static_cast<float>(std::bit_cast<Bf16>(half)));
}

// Tried on NaNs alone; no, too, where there is no room to try it. The last memory is the result.
bool passes_nans(const Context& context, const Graph& graph, const Plan& plan) {
  std::vector<std::size_t> bytes = sizes_of(graph);
  const std::size_t count = bytes.size();
  bytes.push_back(plan.workspace());
  const Scratch scratch(bytes, kNaNs);
  if (!scratch.complete()) return false;
  const cudnnDataType_t type = graph.layout(graph.memories().back()).type;
  std::uint32_t bits = 0;
  try {
    plan.run(context.dnn(), scratch.stream(), blocks_of(scratch, count), scratch.block(count));
    scratch.read(&bits, count - 1, type == CUDNN_DATA_FLOAT ? sizeof bits : sizeof bits / 2);
  } catch (const SystemError&) {  // it does not run on this card after all
    return false;
  }
  return is_nan(bits, type);
}

// Candidates in the library's order; at most `wanted`.
std::vector<Plan> candidates(const Context& context, const std::shared_ptr<const Graph>& graph,
                             const Descriptor& finalized, const EngineRules& rules, bool fp32_data,
                             std::size_t wanted, std::string& reason) {
  std::vector<Plan> plans;
  reason = "no engine for this graph, card and choice of numbers";
  const bool tries = context.has_device() && graph->may_lose_nans();
  std::size_t lost = 0;
  visit_recommended(
      context.target(), *graph, finalized, rules, fp32_data, [&](const EngineChoice& choice) {
        std::optional<Plan> plan =
            Plan::try_make(context.target(), graph, finalized, choice, reason);
        if (plan && plan->workspace() > context.options().workspace) {
          reason = format("needs %s of workspace, more than the %s allowed",
                          format_bytes(static_cast<double>(plan->workspace())).c_str(),
                          format_bytes(static_cast<double>(context.options().workspace)).c_str());
          plan.reset();
        }
        if (plan && tries && !passes_nans(context, *graph, *plan)) {
          reason = "its ReLU makes zeros of NaNs";
          plan.reset();
          ++lost;
        }
        if (plan) plans.push_back(*std::move(plan));
        return plans.size() + lost >= wanted;
      });
  return plans;
}

// The fastest one's place, and its time; the first, and 0, where there is no room to measure.
std::pair<std::size_t, double> fastest(const Context& context, const Graph& graph,
                                       const std::vector<Plan>& plans) {
  std::vector<std::size_t> bytes = sizes_of(graph);
  const std::size_t count = bytes.size();
  std::size_t workspace = 0;
  for (const Plan& plan : plans) workspace = std::max(workspace, plan.workspace());
  bytes.push_back(workspace);
  const Scratch scratch(bytes);
  if (!scratch.complete()) {
    if (context.options().warn) {
      context.options().warn("no room on the GPU to time " + graph.name() +
                             ": using the library's first recommendation");
    }
    return {0, 0.0};
  }
  const std::vector<void*> memories = blocks_of(scratch, count);
  std::size_t best = 0;
  double best_seconds = 0;
  std::string failure;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      const double seconds = median_seconds(kPlanRuns, [&](cudaStream_t stream) {
        plans[i].run(context.dnn(), stream, memories, scratch.block(count));
      });
      if (best_seconds == 0 || seconds < best_seconds) {
        best = i;
        best_seconds = seconds;
      }
    } catch (const SystemError& e) {  // an engine that does not run on this card after all
      failure = e.what();
    }
  }
  if (best_seconds == 0) throw SystemError(failure);
  return {best, best_seconds};
}

}  // namespace

std::shared_ptr<const Plan> try_make_plan(Context& context, std::shared_ptr<const Graph> graph,
                                          Precision precision, std::string& reason) {
  const PlanOptions& options = context.options();
  const std::string key = context.cache_key(
      format("cuDNN %zu", cudnnGetVersion()),
      std::string(to_string(precision)) + (graph->may_lose_nans() ? " | NaNs pass | " : " | ") +
          graph->name() + ": " + graph->key());
  if (const auto at = context.plans().find(key); at != context.plans().end()) {
    if (at->second == nullptr) reason = "no engine for it (found earlier)";
    return at->second;
  }
  const Descriptor finalized = graph->finalized(context.dnn());
  const auto of_kept = [&](const PlanChoice& kept) -> std::optional<Plan> {
    const std::optional<EngineChoice> choice = try_parse_engine_choice(kept.choice);
    if (!choice) return std::nullopt;
    std::optional<Plan> plan = Plan::try_make(context.target(), graph, finalized, *choice, reason);
    return plan && plan->workspace() <= options.workspace ? std::move(plan) : std::nullopt;
  };
  if (const std::optional<PlanChoice> kept = context.cache().find(key)) {
    if (std::optional<Plan> plan = of_kept(*kept)) {
      return context.plans()[key] = std::make_shared<const Plan>(*std::move(plan));
    }
  }
  const bool measure = options.measure && context.has_device();
  std::vector<Plan> plans =
      candidates(context, graph, finalized, {precision != Precision::fp32, options.deterministic},
                 element_of(precision) == ElementType::fp32,
                 measure ? static_cast<std::size_t>(options.candidates) : 1, reason);
  if (plans.empty()) return context.plans()[key] = nullptr;
  std::size_t best = 0;
  double seconds = 0;
  if (measure && plans.size() > 1) std::tie(best, seconds) = fastest(context, *graph, plans);
  // What was not measured is not kept: a later run may have the room.
  std::optional<Plan> chosen = std::move(plans[best]);
  if (seconds > 0) {
    const PlanChoice found{to_string(chosen->choice()), seconds};
    const PlanChoice taken = context.cache().store(key, found);  // another process may be sooner
    if (taken != found) {
      if (std::optional<Plan> earlier = of_kept(taken)) chosen = std::move(earlier);
    }
  }
  return context.plans()[key] = std::make_shared<const Plan>(*std::move(chosen));
}

std::shared_ptr<const Plan> make_plan(Context& context, std::shared_ptr<const Graph> graph,
                                      Precision precision) {
  std::string reason, what;
  for (const Graph::Tensor tensor : graph->memories())
    what += (what.empty() ? "" : "; ") + to_string(graph->layout(tensor));
  what = graph->name() + " of " + what;
  std::shared_ptr<const Plan> plan = try_make_plan(context, std::move(graph), precision, reason);
  if (plan == nullptr) {
    throw SystemError("cuDNN: no plan for " + what + " on " + context.card().name + ": " + reason);
  }
  return plan;
}

}  // namespace hetpipe::cuda
