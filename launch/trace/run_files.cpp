// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/run_files.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMaster = "trace.h5";

// Those of runs that resumed in the directory.
std::vector<std::string> later_traces(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    if (fs::exists(entry.path() / kMaster)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

fs::path find_trace(const std::string& run) {
  const fs::path path = run;
  if (fs::is_regular_file(path)) return path;
  if (!fs::is_directory(path)) {
    throw UserError(run, "does not exist. Give the directory of a run.");
  }
  for (const fs::path& folder : {path, path / "trace"}) {
    if (fs::is_regular_file(folder / kMaster)) return folder / kMaster;
  }
  const std::vector<std::string> later = later_traces(path / "trace");
  if (!later.empty()) {
    throw UserError(run, "holds traces of resumed runs alone: " + join(later, ", ") +
                             ". Give one of these folders.");
  }
  throw UserError(run, std::string("holds no trace (there is no trace/") + kMaster +
                           "; a run that has not ended has none, and one with --trace off). Give "
                           "the directory of a run that has ended.");
}

}  // namespace

RunFiles run_files(const std::string& run) {
  RunFiles files;
  files.trace = find_trace(run);
  // trace/ or trace/from-.../ in the run directory
  fs::path directory = fs::absolute(files.trace).parent_path();
  for (int up = 0; up < 2 && !fs::exists(directory / "plan.toml"); ++up) {
    directory = directory.parent_path();
  }
  files.plan = directory / "plan.toml";
  files.profile = directory / "profile.toml";
  return files;
}

}  // namespace hetpipe
