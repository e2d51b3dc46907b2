// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/schedule/generate.h"

// What a schedule makes a stage hold, and how old what it computes with is: counted from the
// actions themselves, played in slots of equal length (a stage's slot is one F, or one B), never
// from a closed form.
namespace hetpipe {

// Of one position of the pipeline, the most at any moment.
struct HeldCounts {
  int micro_batches = 0;  // between their F and their B (W where it is split), all chunks together;
                          // in continuous_1f1b a minibatch is one
  int minibatches = 0;    // with at least one micro-batch between its first F and its last B
};
std::vector<HeldCounts> count_held(const Schedule& schedule);

// Updates that this position applies between F (B) of a minibatch's first micro-batch and the
// minibatch's own update: what a weight prediction must look ahead (SpecTrain, XPipe), what a B
// with the newest weights is ahead of its F (TiMePReSt). Of the steady part: the largest there.
struct VersionDifference {
  int forward = 0;
  int backward = 0;
  bool operator==(const VersionDifference&) const = default;
};
std::vector<VersionDifference> count_version_differences(const Schedule& schedule);

}  // namespace hetpipe
