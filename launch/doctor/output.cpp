// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPiece = 1 << 20;  // bytes
constexpr std::size_t kPieces = 32;      // of the trial
constexpr double kMostSeconds = 3;       // of writing

fs::path nearest_that_exists(const fs::path& path) {
  std::error_code error;
  fs::path there = path.empty() ? fs::path(".") : path;
  while (!fs::exists(there, error)) {
    there = there.has_parent_path() ? there.parent_path() : fs::path(".");
  }
  return there;
}

std::string refused(const fs::path& path, RunStart start) {
  try {
    RunDirectory::check(path, start);
  } catch (const UserError& error) {
    return error.problems().front().text;
  }
  return {};
}

// From /proc/self/mountinfo: "36 35 98:0 / /mnt rw - ext4 /dev/sda1 rw", by the device's number.
std::string file_system_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  const std::string device = format(" %u:%u ", ::major(status.st_dev), ::minor(status.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos || line.find(device) > dash) continue;
    return line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
  }
  return {};
}

bool another_holds_it(int error) { return error == EAGAIN || error == EACCES; }

// Of a file that is locked already.
void ask_for_lock(const std::string& file, std::string& failure, bool& holds) {
  const OpenFile second(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!second) {
    failure = std::strerror(errno);
    return;
  }
  const int error = try_lock(second.get());
  if (error != 0 && !another_holds_it(error)) failure = std::strerror(error);
  holds = another_holds_it(error);
}

}  // namespace

OutputTrial::OutputTrial(const std::string& output) {
  const fs::path path = output;
  facts_.asked = output;
  facts_.tried = nearest_that_exists(path).string();
  facts_.unusable = refused(path, RunStart::resume);
  if (!facts_.unusable.empty()) return;
  facts_.earlier_run = refused(path, RunStart::fresh);
  facts_.file_system = file_system_of(facts_.tried);
  struct statvfs space {};
  if (::statvfs(facts_.tried.c_str(), &space) == 0) {
    facts_.free = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  }
  const fs::path file = fs::absolute(facts_.tried) / format(".hetpipe-doctor-%d", ::getpid());
  trial_ = TemporaryFile(file.string());
  if (OpenFile(trial_.create())) file_ = OpenFile(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!file_) {
    facts_.write_failure = std::strerror(errno);
    return;
  }
  facts_.file = file.string();
  write();
  lock();
}

void OutputTrial::write() {
  const std::vector<char> piece(kPiece, 'h');
  const std::int64_t start = now_ns();
  for (std::size_t i = 0; i < kPieces && seconds_between(start, now_ns()) < kMostSeconds; ++i) {
    const ssize_t bytes = ::write(file_.get(), piece.data(), piece.size());
    if (bytes > 0) facts_.written += static_cast<double>(bytes);
    if (bytes == static_cast<ssize_t>(piece.size())) continue;
    facts_.write_failure = std::strerror(bytes < 0 ? errno : ENOSPC);
    break;
  }
  const std::int64_t written = now_ns();
  if (::fsync(file_.get()) != 0) facts_.write_failure = std::strerror(errno);
  facts_.write_seconds = seconds_between(start, written);
  facts_.sync_seconds = seconds_between(written, now_ns());
  // Nothing that others could miss while they look.
  if (::ftruncate(file_.get(), 0) != 0) facts_.write_failure = std::strerror(errno);
}

void OutputTrial::lock() {
  const int error = try_lock(file_.get());
  if (error != 0) {
    facts_.lock_failure = std::strerror(error);
    return;
  }
  ask_for_lock(facts_.file, facts_.lock_failure, facts_.lock_holds);
}

OutputSeen look_at_output(const OutputFacts& facts, int rank) {
  OutputSeen seen;
  if (facts.file.empty()) return seen;
  seen.visible = ::access(facts.file.c_str(), F_OK) == 0;
  if (!seen.visible) return seen;
  const TemporaryFile own(facts.file + format("-%d", rank));
  if (!OpenFile(own.create())) seen.unwritable = std::strerror(errno);
  if (facts.lock_failure.empty()) {
    ask_for_lock(facts.file, seen.lock_failure, seen.lock_holds);
  }
  return seen;
}

}  // namespace hetpipe
