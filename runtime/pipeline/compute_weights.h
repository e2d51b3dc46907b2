// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "runtime/pipeline/pass_weights.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/tied_weights.h"

namespace hetpipe {

// The weights that a rank's stages compute with: versions of its own parameters (PassWeights), and
// those of other stages that layers here use (TiedWeights).
class ComputeWeights {
 public:
  // Of one pass; keeps its version.
  struct Of {
    PassWeights::Version version;
    StageWeights weights;
  };

  // `chunks`: the rank's stages. All outlive this.
  ComputeWeights(PassWeights& versions, TiedWeights& tied, std::vector<Stage*> chunks, int micros)
      : versions_(versions), tied_(tied), chunks_(std::move(chunks)), micros_(micros) {}

  Of forward(Minibatch p, int chunk, int micro) {
    PassWeights::Version version = versions_.forward(p, pass(chunk, micro));
    const float* const own = of_chunk(*version, chunk);
    return {std::move(version), {own, tied_.of_forward(p, chunk)}};
  }
  // Of R and B of a pass, and of its W; the same until backward_done().
  Of backward(Minibatch p, int chunk, int micro) {
    PassWeights::Version version = versions_.backward(p, pass(chunk, micro));
    const float* const own = of_chunk(*version, chunk);
    return {std::move(version), {own, tied_.of_backward(p, chunk, pass(chunk, micro))}};
  }
  void forward_done(Minibatch p, int chunk, int micro) {
    versions_.forward_done(p, pass(chunk, micro));
  }
  void backward_done(Minibatch p, int chunk, int micro) {
    versions_.backward_done(p, pass(chunk, micro));
    tied_.backward_done(p, chunk, pass(chunk, micro));
  }

 private:
  int pass(int chunk, int micro) const { return chunk * micros_ + micro; }
  const float* of_chunk(const WeightVersion& version, int chunk) const {
    const float* values = version.values.as<float>();
    for (int c = 0; c < chunk; ++c) {
      values += chunks_[static_cast<std::size_t>(c)]->parameters().count();
    }
    return values;
  }

  PassWeights& versions_;
  TiedWeights& tied_;
  std::vector<Stage*> chunks_;
  int micros_;
};

}  // namespace hetpipe
