// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "runtime/pipeline/loss_scale.h"

namespace hetpipe {

// What the weights of a stage depend on where a run stopped, besides the servers' snapshots: with
// it the minibatches that follow run exactly as they would have (docs/checkpoint.md). That is
// between two waves, or inside of one.
struct ExactWeights {
  Label label = 0;                            // of `base`
  std::vector<float> base;                    // what the last minibatch ran with
  std::vector<std::vector<float>> updates;    // WaveRules::single_updates of the next one
  std::vector<std::vector<float>> own_waves;  // sums of the whole own waves, in order
  // Of the wave that was begun, where `updates` are not all of it: longer than they are.
  std::vector<float> wave_sum{};
  bool operator==(const ExactWeights&) const = default;
};

// One stage of one virtual worker at a label, after all its waves below it: what only it knows.
// Values are flat, in the stage's own order. A plain value; travels as bytes between ranks of one
// build.
struct StageState {
  Label label = 0;
  std::vector<std::vector<float>> slots;  // of the optimizer
  std::vector<float> statistics;          // running means and variances
  std::vector<float> weights{};           // where no server has them
  std::vector<float> average{};           // of the weights, likewise, where one is kept
  std::optional<ExactWeights> exact;
  std::optional<LossScale::State> loss_scale{};  // beside `exact`, of the stage that keeps it
  bool operator==(const StageState&) const = default;
};

std::vector<std::byte> to_bytes(const StageState& state);
StageState stage_state_from(std::span<const std::byte> bytes);

}  // namespace hetpipe
