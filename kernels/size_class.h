// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace hetpipe {

// The size of the blocks that serve `bytes` in a pool which keeps them by size: at most an eighth
// larger, and a multiple of `least`, a power of two.
inline std::size_t size_class(std::size_t bytes, std::size_t least) {
  const std::size_t step = std::max(least, std::bit_floor(bytes) / 8);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace hetpipe
