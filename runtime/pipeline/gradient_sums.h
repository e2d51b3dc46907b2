// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/pipeline/stage.h"

namespace hetpipe {

// A rank's gradients on their way to the next update: sums over the passes since the last one,
// flat, chunk after chunk.
class GradientSums {
 public:
  explicit GradientSums(std::vector<Stage*> chunks) : chunks_(std::move(chunks)) {}

  // Where a pass of the chunk puts its own: into what is there already, or in its place.
  struct Place {
    StageGradients gradients;
    Gradients mode = Gradients::overwrite;
  };
  Place next(int chunk);

  // Of the rank's parameters; of the uses of tied weights (runtime/pipeline/tied_weights.h).
  Buffer& own() { return own_; }
  Buffer take_uses() { return std::move(uses_); }
  Buffer take();  // the next pass begins another sum

 private:
  std::vector<Stage*> chunks_;
  Buffer own_, uses_;
  std::vector<bool> begun_;  // by chunk; none: nothing is there
};

}  // namespace hetpipe
