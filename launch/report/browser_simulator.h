// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hetpipe {

// The simulator as WebAssembly (partitioner/browser), for a page: the script that loads it, and the
// module, packed.
struct BrowserSimulator {
  std::string loader;
  std::string module;
};

// As the build or the installation has it. UserError under `option` where it was not built.
BrowserSimulator load_browser_simulator(const std::string& option);

}  // namespace hetpipe
