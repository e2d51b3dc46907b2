// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/dapple_memory.h"

#include <algorithm>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"

namespace hetpipe {

DappleMemory::DappleMemory(const PlanRequest& request, const PlacedLayers& placed, const Plan& plan,
                           std::vector<std::vector<int>> kinds)
    : request_(request),
      placed_(placed),
      kinds_(std::move(kinds)),
      rule_(memory_rule(plan)),
      samples_(plan.minibatch / plan.micro_batches),
      late_(traits(rule_.schedule).backward == BackwardForm::split),
      shares_(request, samples_),
      tables_(tables_of(request)),
      passes_(passes_of_action(plan, rule_)),
      updates_(updates_of(plan)) {
  schedule_.micro_batches = plan.micro_batches;
  schedule_.in_flight = plan.in_flight;
  for (const DeviceKind& kind : request.cluster.kinds) memory_.push_back(kind.for_plans());
}

const std::vector<MemoryBound>& DappleMemory::needs_of(int stages) {
  const auto [at, fresh] = needs_.try_emplace(stages);
  if (fresh) {
    schedule_.stages = stages;
    const auto& counts = tables_->held().of(rule_.schedule, schedule_);
    for (int k = 0; k < stages; ++k) at->second.emplace_back(rule_, counts, k);
  }
  return at->second;
}

const std::vector<DappleMemory::Replica>& DappleMemory::replicas_of(const DappleStage& stage,
                                                                    int first, int end) {
  std::vector<int> kinds;
  for (const auto& run : stage.devices) {
    const auto& node = kinds_[static_cast<std::size_t>(run.node)];
    kinds.insert(kinds.end(), node.begin() + run.begin, node.begin() + run.begin + run.count);
  }
  // Devices of one kind are equally fast on all layers.
  const bool alike = std::all_of(kinds.begin(), kinds.end(), [&](int k) { return k == kinds[0]; });
  if (alike) first = end = 0;
  const auto [at, fresh] = replicas_.try_emplace({first, end, kinds});
  if (!fresh) return at->second;
  const int count = static_cast<int>(kinds.size());
  std::vector<int> shares;
  if (!alike) shares = shares_.of(first, end, kinds);
  for (int r = 0; r < count; ++r) {
    const int kind = kinds[static_cast<std::size_t>(r)];
    const int samples =
        shares.empty() ? (samples_ + count - 1) / count : shares[static_cast<std::size_t>(r)];
    const auto same = std::find_if(at->second.begin(), at->second.end(),
                                   [&](const Replica& other) { return other.kind == kind; });
    if (same == at->second.end()) {
      at->second.push_back({kind, samples});
    } else {
      same->samples = std::max(same->samples, samples);
    }
  }
  return at->second;
}

bool DappleMemory::fit(const std::vector<Replica>& replicas, int stage, int count, Keep keep) {
  const int first = stage == 0 ? 0 : ends_[static_cast<std::size_t>(stage - 1)];
  const int end = ends_[static_cast<std::size_t>(stage)];
  const MemoryBound& need =
      needs_of(static_cast<int>(ends_.size()))[static_cast<std::size_t>(stage)];
  return std::all_of(replicas.begin(), replicas.end(), [&](const Replica& replica) {
    const DeviceKind& kind = request_.cluster.kinds[static_cast<std::size_t>(replica.kind)];
    const auto of_kind = tables_->of(request_.profile, kind, replica.samples, passes_, updates_);
    ChunkMemory chunk{of_kind->footprints.of(ends_, StageId{stage}), keep};
    if (late_) of_kind->footprints.add_late(chunk.footprint, first, end);
    const std::int64_t missing =
        need.bytes(chunk, count) - memory_[static_cast<std::size_t>(replica.kind)];
    if (missing <= 0) return true;
    if (keep == Keep::inputs && (missing_ == 0 || missing < missing_)) {
      missing_ = missing;
      missing_on_ = replica.kind;
    }
    return false;
  });
}

bool DappleMemory::settle(std::span<DappleStage> stages) {
  ends_.clear();
  for (const DappleStage& stage : stages) ends_.push_back(placed_.end_layer(stage.end_layer));
  for (std::size_t i = 0; i < stages.size(); ++i) {
    DappleStage& stage = stages[i];
    const auto& replicas = replicas_of(stage, i == 0 ? 0 : ends_[i - 1], ends_[i]);
    const int place = static_cast<int>(i);
    const int count = stage.replicas();
    stage.recompute = false;
    if (!traits(rule_.weights).recomputes && fit(replicas, place, count, Keep::activations)) {
      continue;
    }
    if (!fit(replicas, place, count, Keep::inputs)) return false;
    stage.recompute = !traits(rule_.weights).recomputes;
  }
  return true;
}

std::string DappleMemory::shortage() const {
  if (missing_ == 0) return "";
  return format("%s on a %s", format_bytes(static_cast<double>(missing_)).c_str(),
                request_.cluster.kinds[static_cast<std::size_t>(missing_on_)].name.c_str());
}

}  // namespace hetpipe
