// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetpipe {

// Ranks, stages, layers and sizes are signed; the standard library's containers want this. The
// caller knows that it is not negative.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

template <class Container>
constexpr auto& at(Container& values, std::int64_t index) {
  return values[at(index)];
}

}  // namespace hetpipe
