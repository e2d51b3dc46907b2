// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"

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

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    throw UserError(path.string(), "is a folder (a file is needed). Give the path of the file.");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw UserError(path.string(), std::string("cannot be read (") + std::strerror(errno) +
                                       "). Check the path and its permissions.");
  }
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) throw SystemError("reading " + path.string() + " failed");
  return std::move(text).str();
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  write_file(path, {text});
}

void write_file(const std::filesystem::path& path, std::initializer_list<std::string_view> pieces) {
  write_file(path, std::span(pieces.begin(), pieces.size()));
}

void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  const std::string temporary = path.string() + ".tmp." + std::to_string(::getpid());
  const auto failed = [&](const char* step) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw SystemError("cannot write " + path.string() + ": " + step + ": " + std::strerror(error));
  };
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
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
  const bool synced = ::fsync(fd) == 0;
  const int error = errno;
  if (::close(fd) != 0 && synced) failed("close");
  errno = error;
  if (!synced) failed("fsync");
  if (::rename(temporary.c_str(), path.c_str()) != 0) failed("rename");
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

}  // namespace hetpipe
