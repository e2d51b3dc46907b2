// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/tied.h"

#include <algorithm>
#include <map>

#include "partitioner/profile/cut.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

std::vector<TiedWeight> tied_weights(const Profile& profile) {
  std::map<int, TiedWeight> of_owner;
  for (int l = 0; l < static_cast<int>(profile.layers.size()); ++l) {
    const ProfileLayer& layer = profile.layers[static_cast<std::size_t>(l)];
    if (layer.shares.empty()) continue;
    int owner = l - 1;
    while (owner >= 0 && profile.layers[static_cast<std::size_t>(owner)].name != layer.shares) {
      --owner;
    }
    if (owner < 0) continue;
    const std::int64_t bytes = std::min(
        layer.parameter_bytes, profile.layers[static_cast<std::size_t>(owner)].parameter_bytes);
    if (bytes == 0) continue;
    TiedWeight& tied = of_owner[owner];
    tied.owner = owner;
    tied.users.push_back(l);
    tied.bytes = std::max(tied.bytes, bytes);
  }
  std::vector<TiedWeight> all;
  for (auto& [owner, tied] : of_owner) all.push_back(std::move(tied));
  return all;
}

std::vector<std::int64_t> own_parameter_bytes(const Profile& profile) {
  std::vector<std::int64_t> bytes;
  for (const ProfileLayer& layer : profile.layers) bytes.push_back(layer.parameter_bytes);
  for (const TiedWeight& tied : tied_weights(profile)) {
    for (const int user : tied.users) {
      std::int64_t& own = bytes[static_cast<std::size_t>(user)];
      own -= std::min(own, tied.bytes);
    }
  }
  return bytes;
}

std::vector<int> stages_of(const TiedWeight& tied, std::span<const int> stage_end) {
  std::vector<int> stages{stage_of_layer(stage_end, tied.owner)};
  for (const int user : tied.users) {
    const int stage = stage_of_layer(stage_end, user);
    if (stage != stages.back()) stages.push_back(stage);
  }
  return stages;
}

TiedTransfers tied_transfers(std::span<const TiedWeight> tied, std::span<const int> stage_end) {
  TiedTransfers transfers;
  for (const TiedWeight& weight : tied) {
    const std::vector<int> stages = stages_of(weight, stage_end);
    for (std::size_t i = 1; i < stages.size(); ++i) {
      transfers.weights.push_back({stages[0], stages[i], weight.owner, weight.bytes});
      transfers.gradients.push_back({stages[i], stages[i - 1], weight.owner, weight.bytes});
    }
  }
  return transfers;
}

}  // namespace hetpipe
