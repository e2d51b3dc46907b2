// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

// Where a run has its trace and what it was planned with.
namespace hetpipe {

struct RunFiles {
  std::filesystem::path trace;    // the master file
  std::filesystem::path plan;     // may not exist
  std::filesystem::path profile;  // likewise
};

// `run`: a run directory, a folder of traces inside, or a master file. UserError where there is no
// trace, or where it is one of several: then it names them.
RunFiles run_files(const std::string& run);

}  // namespace hetpipe
