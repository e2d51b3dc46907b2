// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/temporary_file.h"

namespace hetpipe {

namespace {

// Until its folder is synced, a new name may vanish with the power.
void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const int error = errno;
  if (fd >= 0) ::close(fd);
  // EINVAL: a file system whose folders cannot be synced (some network ones).
  if (!synced && error != EINVAL) {
    throw SystemError("cannot sync folder " + folder.string() + ": " + std::strerror(error));
  }
}

[[noreturn]] void unreadable(const std::filesystem::path& path) {
  throw UserError(path.string(), std::string("cannot be read (") + std::strerror(errno) +
                                     "). Check the path and its permissions.");
}

void refuse_unless_regular(const std::filesystem::path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  throw UserError(path.string(), std::string(S_ISDIR(status.st_mode)    ? "is a folder"
                                             : S_ISFIFO(status.st_mode) ? "is a pipe"
                                             : S_ISSOCK(status.st_mode) ? "is a socket"
                                                                        : "is a device") +
                                     " (a file is needed). Give the path of the file.");
}

void write_pieces(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                  Durable durable) {
  TemporaryFile temporary(temporary_name(path.string()));
  const auto failed = [&](const char* step) {
    const int error = errno;
    throw SystemError("cannot write " + path.string() + ": " + step + ": " + std::strerror(error));
  };
  const int fd = temporary.create();
  if (fd < 0) failed("open");
  for (std::string_view left : pieces) {
    while (!left.empty()) {
      const ssize_t n = ::write(fd, left.data(), left.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int error = errno;
        ::close(fd);
        errno = error;
        failed("write");
      }
      left.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  const bool synced = durable == Durable::no || ::fsync(fd) == 0;
  const int error = errno;
  if (::close(fd) != 0 && synced) failed("close");
  errno = error;
  if (!synced) failed("fsync");
  if (!temporary.becomes(path.string())) failed("rename");
  if (durable == Durable::yes) sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}
}  // namespace

void check_regular_file(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) unreadable(path);
  refuse_unless_regular(path, status);
}

std::string read_file(const std::filesystem::path& path, std::size_t largest) {
  // Without O_NONBLOCK a pipe would wait for its writer.
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0) unreadable(path);
  refuse_unless_regular(path, status);
  const auto size = static_cast<std::size_t>(status.st_size);  // 0 in /proc
  const auto refuse_size = [&](std::size_t bytes) {
    throw UserError(path.string(), "has " + std::to_string(bytes) + " bytes or more (at most " +
                                       std::to_string(largest) +
                                       " are read at once). Give the file that was meant.");
  };
  if (size > largest) refuse_size(size);
  std::string text;
  std::size_t filled = 0;
  for (;;) {
    if (filled == text.size()) text.resize(std::max({size + 1, 2 * filled, std::size_t{4096}}));
    const ssize_t n = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw SystemError("reading " + path.string() + " failed: " + std::strerror(errno));
    }
    if (n == 0) break;
    filled += static_cast<std::size_t>(n);
    if (filled > largest) refuse_size(filled);
  }
  text.resize(filled);
  return text;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, {text});
}

void write_file(const std::filesystem::path& path, std::initializer_list<std::string_view> pieces) {
  write_file(path, std::span(pieces.begin(), pieces.size()));
}

void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  write_pieces(path, pieces, Durable::yes);
}

void write_file(const std::filesystem::path& path, std::string_view text, Durable durable) {
  write_pieces(path, {&text, 1}, durable);
}

}  // namespace hetpipe
