// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hetpipe {

struct ProgramOutput {
  int code = 0;      // its exit code; 128 + N when signal N ended it
  std::string text;  // standard output and standard error, interleaved
};

// Runs a program from PATH, without input, to its end. SystemError: not found, not started,
// or not ended within `seconds` (it is killed then).
ProgramOutput output_of(const std::vector<std::string>& words, double seconds);

}  // namespace hetpipe
