// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hetpipe {

// Consecutive layers that a table shows in one row.
struct LayerBlock {
  int first = 0;
  int end = 0;       // one past the last
  std::string name;  // the layer's, or "layer3.4 (7 layers)"
};

// Each layer by itself or, where there are more than `most`, by modules: as far down as `most` rows
// allow, so that the blocks of a deep network are a row each.
std::vector<LayerBlock> layer_blocks(const std::vector<std::string>& names, std::size_t most);

}  // namespace hetpipe
