// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "launch/check/batch.h"
#include "runtime/model/model.h"

// Whether stages may begin at any layer: a training of a few steps leaves the same bits.
namespace hetpipe {

// A way to cut a model: one past the last layer of every stage but the last.
using Cut = std::vector<int>;

// All ways to cut so many layers into two stages, or `most` of them, evenly spread.
std::vector<Cut> cuts_in_two(int layers, int most);
// `count` different ones into so many stages, drawn from a seed: as many as there are, at most.
std::vector<Cut> drawn_cuts(int layers, int stages, int count, std::uint64_t seed);

// "conv1..layer2.0.conv1 | layer2.0.bn1..loss"
std::string cut_text(const Model& model, const Cut& cut);

struct CutResult {
  int cuts = 0;                        // that were trained
  std::vector<std::string> different;  // those that differ from one stage, and in what
};
// Trains `steps` steps as one stage, and then with each cut, and compares losses, weights and
// running statistics. `on_cut`: called after each, with how many are done.
CutResult train_cuts(const Model& model, const CheckedBatch& batch, Device& device, int steps,
                     const std::vector<Cut>& cuts, const std::function<void(int)>& on_cut = {});

}  // namespace hetpipe
