// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace hetpipe {

// With which code a process leaves that this exception ends. The one place that knows.
ExitCode exit_code_of(const std::exception& error);
// What is said of it: what(), or in our words where that is the library's name of a type.
std::string text_of(const std::exception& error);

}  // namespace hetpipe
