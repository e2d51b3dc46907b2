// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "base/error.h"

namespace hetpipe {

// The exit code of a process that this exception ends. The only place that maps them.
ExitCode exit_code_of(const std::exception& error);
// Its message: what(), or our own text where that is only the library's name of a type.
std::string text_of(const std::exception& error);

}  // namespace hetpipe
