// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

// The messages of a run. A line goes to standard output and to the run's log file; a warning to
// standard error and the file. On a terminal a live progress line is kept below the last line and
// is redrawn in place; in a file it never appears, so logs stay clean. A log file that cannot be
// written (a full disk) causes one warning and does not stop the run. Any thread may log.
namespace hetpipe {

class Log {
 public:
  enum class Terminal { no, yes };

  // Writes to `out` and `err` (null: silent, for ranks that print nothing).
  Log(std::FILE* out, std::FILE* err, Terminal terminal);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void open_file(const std::string& path);  // appends; throws SystemError
  void line(std::string_view text);         // may hold several lines
  void warning(std::string_view text);
  // Why the run ends, to standard error and the file. Does not wait for a lock: another thread may
  // hang in the middle of a line.
  void failure(std::string_view text);
  void progress(std::string_view text);  // terminal only
  void clear_progress();

 private:
  void clear_progress_locked();
  void put_in_file_locked(std::string_view text);

  std::timed_mutex mutex_;
  std::FILE* out_;
  std::FILE* err_;
  std::FILE* file_ = nullptr;
  std::string path_;  // of file_
  Terminal terminal_;
  bool progress_shown_ = false;
  bool file_failed_ = false;
};

}  // namespace hetpipe
