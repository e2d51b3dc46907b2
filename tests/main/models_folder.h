// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace hetpipe {

// tests/models, the networks that PyTorch exported: beside the program, as in a bundle, or in the
// source tree.
inline std::filesystem::path models_folder() {
  namespace fs = std::filesystem;
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path() / "models";
  return fs::exists(beside) ? beside : fs::path(HETPIPE_SOURCE_DIR) / "tests" / "models";
}

}  // namespace hetpipe
