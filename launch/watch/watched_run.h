// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "runtime/monitoring/run_status.h"

namespace hetpipe {

// A run as its directory shows it, from any machine that sees the directory. Nothing is written.
struct WatchedRun {
  std::filesystem::path directory;
  std::optional<RunStatus> status{};  // none: it has not begun, or the file is of another build
  bool held = false;                  // a process has the directory locked
  std::string last_line{};            // of train.log

  bool says_it_is_over() const;
  // Nobody holds the directory, and nothing has been written for a while: its process was killed,
  // or has not left a status.
  bool is_gone(double silent_seconds) const;
};

// Without a sign of life for so long, a run is called silent; one is due every five seconds.
inline constexpr double kSilentSeconds = 15;

// UserError where the folder is not a run's.
WatchedRun read_watched_run(const std::filesystem::path& directory);

// For how long a run has given no sign of life. The first reading goes by the time that the status
// states, later ones by this machine's clock alone: those of two machines may differ.
class Silence {
 public:
  double seconds_of(const WatchedRun& run);

 private:
  std::optional<double> newest_;  // the status' time
  std::int64_t since_ns_ = 0;
  double before_ = 0;  // seconds, at the first reading
};

}  // namespace hetpipe
