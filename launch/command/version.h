// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

// The version of this build.
namespace hetpipe {

const char* version_number();  // "0.1.0"

// "hetpipe 0.1.0 (build 0123456789abcdef)", the compiler, and one line per device type.
std::string version_text();

}  // namespace hetpipe
