// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hetpipe::fault {

// One command with everything that it starts, distinguished from other processes of the machine by
// a word that stands in the command line of each: its run directory. What is left of it ends with
// it.
class LaunchedJob {
 public:
  LaunchedJob(const std::vector<std::string>& words, const std::string& mark,
              const std::filesystem::path& output);
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  // The ranks that are up, by their number.
  std::map<int, pid_t> ranks() const;
  void signal(int number) const;  // to the command alone
  // The command's exit code (128 + signal where it was killed); nothing while it runs.
  std::optional<int> try_end();
  // Both wait longer on a slow machine (tests/main/patience.h).
  std::optional<int> wait(double usual_seconds);
  // Processes of the job, the command itself left out, that are still there after the time.
  int left_after(double usual_seconds) const;

 private:
  std::vector<pid_t> processes() const;

  std::string mark_;
  pid_t command_ = 0;
  std::optional<int> code_;
};

// Runs to the end. The exit code, or nothing where it took much longer than usual.
std::optional<int> run(const std::vector<std::string>& words, const std::string& mark,
                       const std::filesystem::path& output, double usual_seconds);

}  // namespace hetpipe::fault
