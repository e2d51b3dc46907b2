// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

// Where stages are likely to begin: what searches look at, first or alone, in models of many
// layers.
namespace hetpipe {

constexpr int kLikelyCuts = 48;

// Whether so few cuts of a model save much.
constexpr bool many_more(int layers, int cuts) { return layers >= 2 * cuts; }

// Layers before which a stage is likely to begin, ascending, some `most` of them: of each run of
// layers that computes an equal share of the whole the one before which the least crosses. The
// first is 0, the last the number of layers. `seconds[l]` of the layers before l together;
// `crossing[l]`, bytes that cross a cut before layer l.
std::vector<int> likely_cuts(std::span<const double> seconds, std::span<const double> crossing,
                             int most);

// [l]: the bytes that cross a cut before layer l; `producers[l]`, whose outputs those are.
std::vector<double> crossing_bytes(std::span<const std::vector<int>> producers,
                                   std::span<const std::int64_t> output_bytes);

}  // namespace hetpipe
