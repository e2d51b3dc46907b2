// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hetpipe {

// Of the running program's own file: equal on ranks that run the same build. SystemError when it
// cannot be read.
std::uint64_t build_hash();

}  // namespace hetpipe
