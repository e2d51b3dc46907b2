// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/cut.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

int stage_of_layer(std::span<const int> stage_end, int layer) {
  const auto at = std::upper_bound(stage_end.begin(), stage_end.end(), layer);
  ensure(layer >= 0 && at != stage_end.end(), "layer outside the cut");
  return static_cast<int>(at - stage_end.begin());
}

namespace {

// inputs_of(layer) -> its producers.
template <class InputsOf>
std::vector<Transfer> crossing_transfers(std::size_t count, InputsOf inputs_of,
                                         std::span<const int> stage_end) {
  ensure(!stage_end.empty() && stage_end.back() == static_cast<int>(count),
         "the cut must end at the last layer");
  std::map<std::pair<int, int>, std::map<int, int>> crossing;  // consumers, by layer
  std::vector<int> last(count, 0);                             // stage that consumes a layer
  std::vector<int> stage_of(count, 0);
  for (int layer = 0, to = 0; layer < stage_end.back(); ++layer) {
    while (layer >= stage_end[static_cast<std::size_t>(to)]) ++to;
    stage_of[static_cast<std::size_t>(layer)] = to;
    for (const int producer : inputs_of(static_cast<std::size_t>(layer))) {
      ensure(producer < layer, "layers must stand in topological order");
      const int from = stage_of[static_cast<std::size_t>(producer)];
      if (from != to) ++crossing[{from, to}][producer];
      last[static_cast<std::size_t>(producer)] = to;
    }
  }
  std::vector<Transfer> result;
  for (const auto& [pair, consumers] : crossing) {
    Transfer& transfer = result.emplace_back(Transfer{pair.first, pair.second, {}});
    for (const auto& [layer, times] : consumers) {
      transfer.layers.push_back(layer);
      if (last[static_cast<std::size_t>(layer)] == pair.second) continue;
      transfer.more_gradients.insert(transfer.more_gradients.end(),
                                     static_cast<std::size_t>(times - 1), layer);
    }
  }
  return result;
}

}  // namespace

std::vector<Transfer> transfers(std::span<const std::vector<int>> inputs_of_layer,
                                std::span<const int> stage_end) {
  return crossing_transfers(
      inputs_of_layer.size(),
      [&](std::size_t l) -> const std::vector<int>& { return inputs_of_layer[l]; }, stage_end);
}

std::vector<Transfer> transfers(const Profile& profile, std::span<const int> stage_end) {
  return crossing_transfers(
      profile.layers.size(),
      [&](std::size_t l) -> const std::vector<int>& { return profile.layers[l].inputs; },
      stage_end);
}

}  // namespace hetpipe
