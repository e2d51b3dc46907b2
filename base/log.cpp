// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace hetpipe {
namespace {

void put_line(std::FILE* file, std::string_view text) {
  if (file == nullptr) return;
  std::fwrite(text.data(), 1, text.size(), file);
  if (text.empty() || text.back() != '\n') std::fputc('\n', file);
  std::fflush(file);
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
  std::FILE* opened = std::fopen(path.c_str(), "a");
  if (opened == nullptr) {
    throw SystemError("cannot write the log " + path + ": " + std::strerror(errno));
  }
  if (file_ != nullptr) std::fclose(file_);
  file_ = opened;
}

void Log::line(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_progress_locked();
  put_line(out_, text);
  put_line(file_, text);
}

void Log::warning(std::string_view text) {
  const std::lock_guard lock(mutex_);
  clear_progress_locked();
  const std::string full = "warning: " + std::string(text);
  put_line(err_, full);
  put_line(file_, full);
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
