// SPDX-License-Identifier: Apache-2.0
#include "launch/watch/watched_run.h"

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/fields_json.h"
#include "base/file.h"
#include "base/time.h"
#include "base/wall_clock.h"
#include "runtime/training/run_directory.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Runs of later builds may say more.
std::optional<RunStatus> read_status(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  try {
    return from_text<RunStatus>(read_file(file), Keys::as_far_as_known);
  } catch (const std::exception&) {
    return std::nullopt;  // removed just now, or cut off with the power
  }
}

std::string last_line_of(const fs::path& file) {
  constexpr std::streamoff kEnough = 4096;  // bytes
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return "";
  const std::streamoff size = in.tellg();
  in.seekg(std::max<std::streamoff>(0, size - kEnough));
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

bool WatchedRun::says_it_is_over() const {
  return status && status->is_over();
}

bool WatchedRun::is_gone(double silent_seconds) const {
  return !held && !says_it_is_over() && (!status || silent_seconds >= kSilentSeconds);
}

WatchedRun read_watched_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    throw UserError(directory.string(),
                    fs::exists(directory, error)
                        ? "is not a folder (a run has one). Give the directory of a run."
                        : "does not exist. Give the directory of a run.");
  }
  if (!fs::is_regular_file(directory / "config.toml", error)) {
    throw UserError(directory.string(),
                    "is not the directory of a run (it has no config.toml). Give the --output of a "
                    "training.");
  }
  WatchedRun run{.directory = directory};
  run.held = is_locked(directory / "lock");  // first: what a run leaves, it leaves before that
  run.status = read_status(directory / "status.json");
  run.last_line = last_line_of(directory / "train.log");
  return run;
}

double Silence::seconds_of(const WatchedRun& run) {
  const std::int64_t now = now_ns();
  if (!run.status) return 0;
  if (newest_ != run.status->time) {
    before_ = newest_ ? 0 : std::max(0.0, wall_seconds() - run.status->time);
    newest_ = run.status->time;
    since_ns_ = now;
  }
  return before_ + seconds_between(since_ns_, now);
}

}  // namespace hetpipe
