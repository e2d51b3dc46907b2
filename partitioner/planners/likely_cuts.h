// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hetpipe {

// Layers before which a stage is likely to begin, ascending, some `most` of them: of each run of
// layers that computes an equal share of the whole the one before which the least crosses. The
// first is 0, the last the number of layers. `seconds` of each layer; `crossing[l]`, bytes that
// cross a cut before layer l.
std::vector<int> likely_cuts(const std::vector<double>& seconds,
                             const std::vector<double>& crossing, int most);

}  // namespace hetpipe
