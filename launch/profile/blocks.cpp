// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/blocks.h"

#include <algorithm>

#include "base/text.h"

namespace hetpipe {
namespace {

// The first `depth` parts of "layer3.4.conv2".
std::string module_at(const std::string& name, std::size_t depth) {
  std::size_t end = 0;
  for (std::size_t part = 0; part < depth; ++part) {
    end = name.find('.', end + (part == 0 ? 0 : 1));
    if (end == std::string::npos) return name;
  }
  return name.substr(0, end);
}

std::vector<LayerBlock> blocks_at(const std::vector<std::string>& names, std::size_t depth) {
  std::vector<LayerBlock> blocks;
  for (int l = 0; l < static_cast<int>(names.size()); ++l) {
    const std::string name = module_at(names[static_cast<std::size_t>(l)], depth);
    if (blocks.empty() || blocks.back().name != name) blocks.push_back({l, l, name});
    blocks.back().end = l + 1;
  }
  for (LayerBlock& block : blocks) {
    const int layers = block.end - block.first;
    if (layers > 1) {
      block.name += format(" (%d layers)", layers);
    } else {
      block.name = names[static_cast<std::size_t>(block.first)];
    }
  }
  return blocks;
}

}  // namespace

std::vector<LayerBlock> layer_blocks(const std::vector<std::string>& names, std::size_t most) {
  std::size_t deepest = 1;
  for (const std::string& name : names) {
    deepest = std::max<std::size_t>(deepest, 1 + std::ranges::count(name, '.'));
  }
  for (std::size_t depth = deepest; depth > 1; --depth) {
    std::vector<LayerBlock> blocks = blocks_at(names, depth);
    if (blocks.size() <= most) return blocks;
  }
  std::vector<LayerBlock> modules = blocks_at(names, 1);
  const std::size_t flat = names.size() / 2;  // names without modules: nothing to group by
  return modules.size() <= std::max(most, flat) ? modules : blocks_at(names, deepest);
}

}  // namespace hetpipe
