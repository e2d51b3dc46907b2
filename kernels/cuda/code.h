// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/text.h"

// For which cards this build has code: its architectures as CMake names them, separated by commas,
// such as "75-real,80-real,120". N-real is machine code, for cards of N's major number from N on;
// N-virtual is PTX, which the driver compiles for any card from N on; N alone is both.
namespace hetpipe::cuda {

struct CodeFor {
  int major = 0, minor = 0;
  bool machine = true, ptx = true;
  bool only = false;  // "90a": of no other card
};

inline std::vector<CodeFor> code_of(const std::string& architectures) {
  std::vector<CodeFor> all;
  for (const std::string& one : split(architectures, ',')) {
    const int number = std::atoi(one.c_str());
    if (number <= 0) continue;
    const std::size_t digits = std::to_string(number).size();
    CodeFor code{.major = number / 10, .minor = number % 10};
    code.only = digits < one.size() && one[digits] == 'a';
    if (one.ends_with("-real")) code.ptx = false;
    if (one.ends_with("-virtual")) code.machine = false;
    all.push_back(code);
  }
  return all;
}

inline bool has_code_for(const std::string& architectures, int major, int minor) {
  for (const CodeFor& code : code_of(architectures)) {
    const bool same = code.major == major && code.minor == minor;
    if (same) return true;
    if (code.only) continue;
    if (code.machine && code.major == major && code.minor <= minor) return true;
    if (code.ptx && 10 * code.major + code.minor <= 10 * major + minor) return true;
  }
  return false;
}

// "7.5, 8.0, 12.0 or newer"
inline std::string cards_with_code(const std::string& architectures) {
  std::vector<std::string> cards;
  for (const CodeFor& code : code_of(architectures)) {
    cards.push_back(format("%d.%d%s", code.major, code.minor, code.ptx ? " or newer" : ""));
  }
  return join(cards, ", ");
}

// Why a card cannot be used by a build of these architectures with the cuDNN that was loaded
// (91002), and what to take; "" where it can.
inline std::string why_unfit(const std::string& architectures, std::size_t cudnn,
                             const std::string& name, int major, int minor) {
  const int number = 10 * major + minor;
  const std::string card =
      format("%s has compute capability %d.%d, and ", name.c_str(), major, minor);
  if (!has_code_for(architectures, major, minor)) {
    const std::string build = format("HETPIPE_CUDA_ARCHITECTURES=%d when CMake configures", number);
    std::string take = "Take one for it: " + build;
    if (number < 75) take += " with a CUDA Toolkit 12, the last that knows it";
    if (number >= 60 && number < 75) {
      take = "Take the bundle of CUDA 12 (launch/bundle --cuda 12 makes it), or one for it: " +
             take.substr(take.find(build));
    }
    return card + "this build has code for " + cards_with_code(architectures) + ". " + take;
  }
  if (number < 75 && cudnn >= 91100) {
    return card +
           format(
               "cuDNN %zu.%zu, which was loaded, has no code for cards below 7.5. Take cuDNN "
               "9.10 for CUDA 12, the last that has (its folder first in LD_LIBRARY_PATH)",
               cudnn / 10000, cudnn % 10000 / 100);
  }
  return "";
}

}  // namespace hetpipe::cuda
