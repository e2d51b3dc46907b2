// SPDX-License-Identifier: Apache-2.0
#include "base/huge_pages.h"

#include <sys/mman.h>

namespace hetpipe {
void ask_for_huge_pages(void* memory, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + bytes) / kHugePage * kHugePage;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

std::vector<float> huge_floats(std::size_t count) {
  std::vector<float> floats;
  floats.reserve(count);
  ask_for_huge_pages(floats.data(), count * sizeof(float));
  floats.resize(count);
  return floats;
}

}  // namespace hetpipe
