// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/footprint.h"

#include <algorithm>
#include <set>

#include "partitioner/cost/gradient_bytes.h"
#include "partitioner/profile/cut.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {

StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches) {
  const auto end_of = [&](int k) { return k < 0 ? 0 : stage_end[static_cast<std::size_t>(k)]; };
  StageFootprint footprint;
  const std::vector<std::int64_t> own = own_parameter_bytes(profile);
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    footprint.parameters += own[at];
    footprint.stash_once += costs.stash_bytes[at];
    if (!costs.update_bytes.empty()) {
      footprint.updating = std::max(footprint.updating, costs.update_bytes[at]);
    }
  }
  std::vector<bool> read_here(profile.layers.size(), false);
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    for (const int from : profile.layers[static_cast<std::size_t>(l)].inputs) {
      read_here[static_cast<std::size_t>(from)] = true;
    }
  }
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (profile.layers[at].kept_for_readers && !read_here[at]) {
      footprint.stash_once -= std::min(costs.output_bytes[at], costs.stash_bytes[at]);
    }
  }
  footprint.stash = footprint.stash_once * micro_batches;
  const int first = end_of(stage.value - 1);
  const int end = end_of(stage.value);
  const GradientBytes gradients(profile, costs, first, end);
  std::int64_t kept = 0;
  for (int l = first; l < end; ++l) {
    const auto at = static_cast<std::size_t>(l);
    kept += costs.stash_bytes[at];
    const auto [known, unknown] = gradients.of(l, first, end);
    const std::int64_t freed = l + 1 == end ? 0 : footprint.stash_once - kept;
    if (known > 0) footprint.gradients = std::max(footprint.gradients, known - freed);
    if (known == 0 || !gradients.measured()) {
      footprint.working = std::max(footprint.working, unknown);
    }
    const std::int64_t parameters = profile.layers[at].parameter_bytes;
    if (parameters == 0) continue;
    footprint.adding = std::max(footprint.adding, std::max(known, unknown) + parameters - freed);
  }
  std::set<int> sent;
  for (const Transfer& transfer : transfers(profile, stage_end)) {
    std::int64_t bytes = 0;
    for (const int l : transfer.layers) bytes += costs.output_bytes[static_cast<std::size_t>(l)];
    if (transfer.to_stage == stage.value) {
      footprint.received += bytes * micro_batches;
      footprint.received_once += bytes;
    }
    if (transfer.from_stage == stage.value) {
      footprint.sent += bytes * micro_batches;
      sent.insert(transfer.layers.begin(), transfer.layers.end());
    }
  }
  const std::vector<TiedWeight> tied = tied_weights(profile);
  for (const TiedWeight& weight : tied) {
    for (const int user : weight.users) {
      if (stage_of_layer(stage_end, user) == stage.value) footprint.uses += weight.bytes;
    }
  }
  const TiedTransfers ways = tied_transfers(tied, stage_end);
  for (const TiedTransfer& weights : ways.weights) {
    if (weights.to_stage == stage.value) footprint.foreign += weights.bytes;
    if (weights.from_stage == stage.value) footprint.tied_sent += weights.bytes;
  }
  for (const TiedTransfer& sums : ways.gradients) {
    if (sums.to_stage == stage.value) footprint.tied_received += sums.bytes;
  }
  std::vector<std::int64_t> parameters;
  for (const ProfileLayer& layer : profile.layers) parameters.push_back(layer.parameter_bytes);
  add_late_parts(footprint, gradients, parameters, costs.output_bytes, costs.stash_bytes,
                 end_of(stage.value - 1), end_of(stage.value),
                 [&](int l) { return sent.contains(l); });
  return footprint;
}

void add_late_parts(StageFootprint& footprint, const GradientBytes& gradients,
                    std::span<const std::int64_t> parameter_bytes,
                    std::span<const std::int64_t> output_bytes,
                    std::span<const std::int64_t> stash_bytes, int first, int end,
                    const std::function<bool(int layer)>& sent) {
  std::int64_t freed = 0;
  for (int l = end - 1; l >= first; --l) {
    const auto at = static_cast<std::size_t>(l);
    const std::int64_t parameters = parameter_bytes[at];
    footprint.late_adding = std::max(footprint.late_adding, parameters - freed);
    const bool waits = parameters > 0 && !sent(l);
    if (gradients.measured()) {
      const auto [known, unknown] = gradients.of(l, first, end);
      footprint.late_working =
          std::max(footprint.late_working,
                   std::max(known, unknown) + footprint.waiting - footprint.freed_early);
    }
    if (waits) footprint.waiting += output_bytes[at];
    if (parameters == 0) {
      footprint.freed_early += std::max<std::int64_t>(0, stash_bytes[at] - output_bytes[at]);
    }
    freed += stash_bytes[at] + (waits ? output_bytes[at] : 0);
  }
}

}  // namespace hetpipe
