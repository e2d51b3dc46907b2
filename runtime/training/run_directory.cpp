// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/run_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

[[noreturn]] void unusable(const fs::path& path, const char* what, const std::string& why) {
  throw UserError("--output " + path.string(),
                  std::string(what) + " (" + why + "). Give a directory that can be written.");
}

void create(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) unusable(path, "cannot be created", error.message());
}

// lock: -1 where the file cannot be opened.
std::string holder(int lock) {
  std::array<char, 512> text{};
  const ssize_t length = ::pread(lock, text.data(), text.size() - 1, 0);
  if (length <= 0) return "another process, whose lock file is gone";
  const std::string first(text.data(), static_cast<std::size_t>(length));
  return first.substr(0, first.find('\n'));
}

bool holds_a_run(const fs::path& path) {
  std::error_code error;
  const auto log_size = fs::file_size(path / "train.log", error);
  if (!error && log_size > 0) return true;
  const fs::directory_iterator first(path / "checkpoints", error);
  return !error && first != fs::directory_iterator();
}

void refuse_earlier_run(const fs::path& path) {
  if (!holds_a_run(path)) return;
  throw UserError("--output " + path.string(),
                  "holds an earlier run (a new one would overwrite it). Give another --output, or "
                  "--resume to continue that run.");
}

}  // namespace

fs::path RunDirectory::default_path(const std::string& model) {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y%m%d-%H%M%S", &local);
  return fs::path("runs") / (model + "-" + stamp.data());
}

void RunDirectory::check(const fs::path& path, RunStart start) {
  std::error_code error;
  fs::path there = path.empty() ? fs::path(".") : path;  // the part of it that exists
  while (!fs::exists(fs::symlink_status(there, error))) {
    there = there.has_parent_path() ? there.parent_path() : fs::path(".");
  }
  const char* what = there == path ? "cannot be written" : "cannot be created";
  if (!fs::is_directory(there, error)) unusable(path, what, there.string() + " is not a directory");
  if (::access(there.c_str(), W_OK | X_OK) != 0) {
    unusable(path, what, there.string() + ": " + std::strerror(errno));
  }
  if (start == RunStart::fresh) refuse_earlier_run(path);
}

int try_lock(int file) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(file, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
}

bool is_locked(const fs::path& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return file && ::fcntl(file.get(), F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
}

void RunDirectory::refuse_locked(int file) const {
  throw UserError("--output " + path_.string(),
                  "is in use by another run (" + holder(file) +
                      "). Wait for it to end, or give another --output.");
}

// Both locks are the kernel's, of an open file, so that they end with the process however that
// ends. The directory's stays whatever is deleted in it, but network file systems keep it to this
// host (NFS) or have none; the file's holds between hosts.
void RunDirectory::lock() {
  directory_ = OpenFile(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_) unusable(path_, "cannot be read", std::strerror(errno));
  const fs::path file = path_ / "lock";
  if (::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    refuse_locked(OpenFile(::open(file.c_str(), O_RDONLY | O_CLOEXEC)).get());
  }
  lock_ = OpenFile(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock_) unusable(path_, "cannot be written", std::strerror(errno));
  if (const int error = try_lock(lock_.get()); error != 0) {
    if (error == EAGAIN || error == EACCES) refuse_locked(lock_.get());
    unusable(path_, "cannot be locked", std::strerror(error));
  }
}

RunDirectory::RunDirectory(fs::path path, RunStart start) : path_(std::move(path)) {
  create(path_);
  lock();
  if (start == RunStart::fresh) refuse_earlier_run(path_);
  const std::string text =
      format("process %ld on %s\n", static_cast<long>(::getpid()), host_name().c_str());
  const bool written =
      ::ftruncate(lock_.get(), 0) == 0 &&
      ::pwrite(lock_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  if (!written) {
    throw SystemError("cannot write " + (path_ / "lock").string() + ": " + std::strerror(errno));
  }
  create(checkpoints());
}

fs::path RunDirectory::create_trace_folder(std::int64_t from, int inside) const {
  fs::path folder = path_ / "trace";
  const std::string name = format("from-%08lld", static_cast<long long>(from));
  if (inside > 0) {
    folder /= name + format("-%d", inside);
  } else if (from > 0) {
    folder /= name;
  }
  create(folder);
  return folder;
}

}  // namespace hetpipe
