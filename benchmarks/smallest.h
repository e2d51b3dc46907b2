// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

// Programs are measured on the inputs that tables are about, and tried on their smallest input: a
// trial shows that a program still does all that it did, in a second; its numbers mean nothing.
namespace hetpipe::bench {

// Whether the first argument is --smallest, which is then taken out.
inline bool take_smallest(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "--smallest") return false;
  std::copy(argv + 2, argv + argc + 1, argv + 1);  // with the null pointer at the end
  --argc;
  return true;
}

}  // namespace hetpipe::bench
