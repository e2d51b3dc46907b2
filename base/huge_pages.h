// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hetpipe {

inline constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;

// Requests huge pages for those within [memory, memory + bytes), before it is touched: fewer
// page faults, and faster copies between processes. A failure is ignored.
void ask_for_huge_pages(void* memory, std::size_t bytes);

// Reserves it in such memory where it is large.
template <class T>
void reserve_huge(std::vector<T>& values, std::size_t count) {
  constexpr std::size_t kLarge = std::size_t{8} << 20;  // bytes; below that it is not worth a call
  if (count <= values.capacity()) return;
  values.reserve(count);
  if (count * sizeof(T) >= kLarge) ask_for_huge_pages(values.data(), count * sizeof(T));
}

// `count` zeros in such memory.
std::vector<float> huge_floats(std::size_t count);

}  // namespace hetpipe
