// SPDX-License-Identifier: Apache-2.0
#include "launch/report/browser_simulator.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "runtime/store/packed_text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// From the program's folder: in a build tree and a bundle, and where an installation has data.
constexpr const char* kSimulatorFolders[] = {"../share/hetpipe/simulator",
                                             HETPIPE_INSTALLED_SIMULATOR};

}  // namespace

BrowserSimulator load_browser_simulator(const std::string& option) {
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : kSimulatorFolders) {
    const fs::path found = programs / folder;
    if (!fs::exists(found / "simulator.wasm", error)) continue;
    return {read_file(found / "simulator.js"), packed_text(read_file(found / "simulator.wasm"))};
  }
  throw UserError(
      option,
      "needs the simulator for browsers (it was not built with this program). Install "
      "Debian's emscripten and build again with -DHETPIPE_BROWSER=on, or leave it out.");
}

}  // namespace hetpipe
