// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// What this build is.
namespace hetpipe {

// Of the running program's own file: equal on ranks that run the same build. SystemError when it
// cannot be read.
std::uint64_t build_hash();

// "hetpipe 0.1.0 (build 0123456789abcdef)", the compiler, and one line per device type.
std::string version_text();

}  // namespace hetpipe
