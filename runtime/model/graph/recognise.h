// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/model/graph/graph.h"

namespace hetpipe::graph {

// What stands in pieces becomes one node, at the place of its last piece; pieces that are not read
// otherwise are left without a reader.
//   stochastic depth:  x * stochastic_depth_mask(like x)           -> stochastic_depth(x)
//   RMS norm:          [weight *] x * rsqrt(mean(x^2, -1) + eps)    -> rms_norm(x [, weight])
void recognise(Graph& graph);

}  // namespace hetpipe::graph
