// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

// One rule for what crosses a cut, shared by ledger, cost model and executor: a tensor goes
// straight from its producer's stage to each consuming stage, once, however many layers there
// consume it.
//
// Gradients are added up from the last consumer to the first, wherever the cuts are, so that these
// change no bit. Where a stage has several consumers of a tensor and a later stage has more, what
// comes back from it is therefore not their sum but the gradient of each.
namespace hetpipe {

struct Profile;

struct Transfer {
  int from_stage = 0;
  int to_stage = 0;
  std::vector<int>
      layers;  // whose outputs travel forward, ascending; gradients travel back likewise
  // Whose gradients travel back once more, behind those: one for each consumer but the last.
  std::vector<int> more_gradients = {};
  bool operator==(const Transfer&) const = default;
};

// stage_end[k] is one past the last layer of stage k, ascending, the last equal to the number of
// layers. inputs_of_layer[l] are the producers of layer l, all < l. Result ordered by from_stage,
// then to_stage.
std::vector<Transfer> transfers(std::span<const std::vector<int>> inputs_of_layer,
                                std::span<const int> stage_end);
std::vector<Transfer> transfers(const Profile& profile, std::span<const int> stage_end);

// The stage that holds a layer.
int stage_of_layer(std::span<const int> stage_end, int layer);

}  // namespace hetpipe
