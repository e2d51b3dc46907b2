// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/pipeline/stage.h"

namespace hetpipe {

// The first place, in the order of computation, where a number is NaN or infinite.
struct NonFinite {
  std::string what;           // "the output of layer conv1 (inf, sample 3 of the minibatch)"
  std::optional<int> sender;  // received from this stage, where it arose or was received too
};

// Searches a minibatch after its forward: samples, then what earlier stages sent, then layer
// by layer parameters and output. Of an output that is gone (worked on in place) the range of
// layers up to the next one that is there is named. Waits for the stream; for a run that is about
// to end, since a look costs more than a forward.
std::optional<NonFinite> first_non_finite(const Stage& stage, const Pass& pass,
                                          const StageWeights& weights);

}  // namespace hetpipe
