// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hetpipe {

// The path of a program found in PATH; empty: not found.
std::string find_program(const std::string& name);

// While it lives, SIGINT and SIGTERM ask this process to stop instead of ending it.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  static bool asked();
};

// Runs a program in a process group of its own, its output in a file, without input. Once
// `stop` says so the program is asked to end (SIGTERM to it alone: a launcher ends what it started
// itself), and its group is killed if it does not within kPatience. It goes when this process goes.
// Returns its exit code, 128 + N when signal N ended it. SystemError when it cannot be started.
int run_child(const std::vector<std::string>& words, const std::filesystem::path& said,
              const std::function<bool()>& stop);

struct ProgramOutput {
  int code = 0;      // its exit code; 128 + N when signal N ended it
  std::string text;  // standard output and standard error, interleaved
};

// Runs a program from PATH, without input, to its end. SystemError: not found, not started,
// or not ended within `seconds` (it is killed then).
ProgramOutput output_of(const std::vector<std::string>& words, double seconds);

}  // namespace hetpipe
