// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/pipeline/stage.h"

namespace hetpipe {

// A rank's gradients on their way to the next update: sums over the passes since the last one,
// flat, chunk after chunk.
class GradientSums {
 public:
  // `memory_of_uses`: TiedWeights' of that name.
  GradientSums(std::vector<Stage*> chunks, std::function<std::shared_ptr<Buffer>()> memory_of_uses)
      : chunks_(std::move(chunks)), memory_of_uses_(std::move(memory_of_uses)) {}

  // Where a pass of the chunk puts its own: into what is there already, or in its place.
  struct Place {
    StageGradients gradients;
    Gradients mode = Gradients::overwrite;
  };
  Place next(int chunk);

  // Of the rank's parameters; of the uses of tied weights (runtime/pipeline/tied_weights.h).
  Buffer& own() { return own_; }
  const std::shared_ptr<Buffer>& uses() const { return uses_; }
  Buffer take();  // the next pass begins another sum

 private:
  std::vector<Stage*> chunks_;
  std::function<std::shared_ptr<Buffer>()> memory_of_uses_;
  Buffer own_;
  std::shared_ptr<Buffer> uses_;
  std::vector<bool> begun_;  // by chunk; none: nothing is there
};

}  // namespace hetpipe
