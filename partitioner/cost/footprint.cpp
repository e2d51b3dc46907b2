// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/footprint.h"

#include <algorithm>
#include <set>

#include "partitioner/profile/cut.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {

GradientBytes gradient_bytes(const Profile& profile, const LayerCosts& costs) {
  const std::vector<std::int64_t>& output_bytes = costs.output_bytes;
  const std::size_t layers = profile.layers.size();
  std::vector<std::size_t> last_reader(layers, 0);
  std::vector<int> readers(layers, 0);
  for (std::size_t l = 0; l < layers; ++l) {
    for (const int input : profile.layers[l].inputs) {
      last_reader[static_cast<std::size_t>(input)] = l;
      ++readers[static_cast<std::size_t>(input)];
    }
  }
  std::vector<std::int64_t> beside(layers, 0);
  for (std::size_t l = 0; l < layers; ++l) {
    for (std::size_t between = l + 1; between < last_reader[l]; ++between) {
      beside[between] += output_bytes[l];
    }
  }
  const auto read_by_next_alone = [&](std::size_t l) {
    return readers[l] == 1 && last_reader[l] == l + 1;
  };
  // Without scratch, not all is known: both ways are counted.
  const bool measured = !costs.scratch_bytes.empty();
  GradientBytes result;
  for (std::size_t l = 0; l < layers; ++l) {
    const std::int64_t scratch = measured ? costs.scratch_bytes[l] : 0;
    const std::int64_t here = output_bytes[l] + std::min(output_bytes[l], beside[l]);
    const bool passes_on = readers[l] == 0 || read_by_next_alone(l);
    const bool chained = l > 0 && read_by_next_alone(l - 1) && passes_on;
    const bool apart = chained && profile.layers[l].gradients_apart;
    const std::int64_t input = apart ? output_bytes[l - 1] : 0;
    result.anywhere.push_back(here);
    result.inside.push_back(apart || (chained && measured) ? here + input + scratch : 0);
    result.first.push_back(passes_on && measured ? output_bytes[l] + scratch : 0);
    result.last.push_back(apart ? std::max(here, input + scratch) : here);
    std::int64_t returned = 0;
    for (const int from : profile.layers[l].inputs) {
      returned += output_bytes[static_cast<std::size_t>(from)];
    }
    const bool known = passes_on && measured;
    result.alone.push_back(known ? std::max(output_bytes[l] - returned, scratch) : output_bytes[l]);
  }
  return result;
}

StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches) {
  const auto end_of = [&](int k) { return k < 0 ? 0 : stage_end[static_cast<std::size_t>(k)]; };
  const GradientBytes gradients = gradient_bytes(profile, costs);
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
  const bool measured = !costs.scratch_bytes.empty();
  std::int64_t kept = 0;
  for (int l = first; l < end; ++l) {
    const auto at = static_cast<std::size_t>(l);
    kept += costs.stash_bytes[at];
    const bool last = l + 1 == end;
    const std::int64_t known = last ? 0 : l == first ? gradients.first[at] : gradients.inside[at];
    const std::int64_t unknown = !last       ? gradients.anywhere[at]
                                 : l > first ? gradients.last[at]
                                             : gradients.alone[at];
    const std::int64_t freed = last ? 0 : footprint.stash_once - kept;
    if (known > 0) footprint.gradients = std::max(footprint.gradients, known - freed);
    if (known == 0 || !measured) {
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
  add_late_parts(footprint, parameters, costs.output_bytes, costs.stash_bytes,
                 end_of(stage.value - 1), end_of(stage.value),
                 [&](int l) { return sent.contains(l); });
  return footprint;
}

void add_late_parts(StageFootprint& footprint, std::span<const std::int64_t> parameter_bytes,
                    std::span<const std::int64_t> output_bytes,
                    std::span<const std::int64_t> stash_bytes, int first, int end,
                    const std::function<bool(int layer)>& sent) {
  std::int64_t freed = 0;
  for (int l = end - 1; l >= first; --l) {
    const auto at = static_cast<std::size_t>(l);
    const std::int64_t parameters = parameter_bytes[at];
    footprint.late_adding = std::max(footprint.late_adding, parameters - freed);
    const bool waits = parameters > 0 && !sent(l);
    if (waits) footprint.waiting += output_bytes[at];
    if (parameters == 0) {
      footprint.freed_early += std::max<std::int64_t>(0, stash_bytes[at] - output_bytes[at]);
    }
    freed += stash_bytes[at] + (waits ? output_bytes[at] : 0);
  }
}

}  // namespace hetpipe
