// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr std::chrono::milliseconds kPatience{200};
constexpr std::size_t kPipeTakes = 4096;  // at once, when it says that it can take something

bool put_line(std::FILE* file, std::string_view text) {
  if (file == nullptr) return true;
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (text.empty() || text.back() != '\n') written = std::fputc('\n', file) != EOF && written;
  return std::fflush(file) == 0 && written;
}

// Past stdio, whose lock another thread may hold, and only while the other end takes it.
void put_now(int descriptor, std::string_view text) {
  while (!text.empty()) {
    pollfd wanted{.fd = descriptor, .events = POLLOUT, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(kPatience.count())) <= 0) return;
    const ssize_t written = ::write(descriptor, text.data(), std::min(text.size(), kPipeTakes));
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

Log::Log(std::FILE* out, std::FILE* err, Terminal terminal)
    : out_(out), err_(err), terminal_(terminal) {}

Log::~Log() {
  clear_progress();
  if (file_ != nullptr) std::fclose(file_);
}

void Log::open_file(const std::string& path) {
  const std::lock_guard lock(mutex_);
  // A link could lead to any file of the user.
  const int file = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  std::FILE* opened = file < 0 ? nullptr : ::fdopen(file, "a");
  if (opened == nullptr) {
    throw SystemError("cannot write the log " + path + ": " + std::strerror(errno));
  }
  if (file_ != nullptr) std::fclose(file_);
  file_ = opened;
  path_ = path;
}

void Log::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_progress_locked();
  put_line(out_, text);
  put_in_file_locked(text);
}

void Log::warning(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_progress_locked();
  const std::string full = "warning: " + std::string(text);
  put_line(err_, full);
  put_in_file_locked(full);
}

// A full disk does not stop what is logged; that lines are missing is said once.
void Log::put_in_file_locked(std::string_view text) {
  if (put_line(file_, text)) return;
  const int error = errno;
  std::clearerr(file_);
  if (file_failed_) return;
  file_failed_ = true;
  put_line(err_, std::string("warning: cannot write to the log file (") + std::strerror(error) +
                     "): lines will be missing in it");
}

void Log::failure(std::string_view text) {
  std::string full(text);
  if (full.empty() || full.back() != '\n') full += '\n';
  const std::unique_lock lock(mutex_, kPatience);
  // What stands in file_ has been flushed line by line, so the order is kept.
  const int file =
      path_.empty() ? -1 : ::open(path_.c_str(), O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
  if (file >= 0) {
    put_now(file, full);
    ::close(file);
  }
  if (lock) clear_progress_locked();
  if (err_ != nullptr) put_now(::fileno(err_), full);
}

void Log::progress(std::string_view text) {
  const std::lock_guard lock(mutex_);
  if (terminal_ == Terminal::no || out_ == nullptr) return;
  std::fprintf(out_, "\r\x1b[K%.*s", static_cast<int>(text.size()), text.data());
  std::fflush(out_);
  progress_shown_ = true;
}

void Log::clear_progress() {
  const std::lock_guard lock(mutex_);
  clear_progress_locked();
}

void Log::clear_progress_locked() {
  if (!progress_shown_) return;
  std::fputs("\r\x1b[K", out_);
  std::fflush(out_);
  progress_shown_ = false;
}

}  // namespace hetpipe
