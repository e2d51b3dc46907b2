// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace hetpipe {

// Wishes huge pages for the whole ones inside [memory, memory + bytes), before it is touched: fewer
// page faults, and faster copies between processes. Failing is of no concern.
void ask_for_huge_pages(void* memory, std::size_t bytes);

// `count` zeros in such memory.
std::vector<float> huge_floats(std::size_t count);

}  // namespace hetpipe
