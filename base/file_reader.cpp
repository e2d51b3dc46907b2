// SPDX-License-Identifier: Apache-2.0
#include "base/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace hetpipe {

FileReader::FileReader(std::filesystem::path path) : path_(std::move(path)) {
  check_regular_file(path_);
  file_ = OpenFile(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat about {};
  if (!file_ || ::fstat(file_.get(), &about) != 0) {
    throw UserError(path_.string(), std::string("cannot be opened (") + std::strerror(errno) +
                                        "). Check the path and its permissions.");
  }
  size_ = about.st_size;
  changed_ = about.st_mtim;
}

void FileReader::read(std::int64_t offset, std::span<std::byte> out) const {
  struct stat about {};
  if (::fstat(file_.get(), &about) != 0 || about.st_size != size_ ||
      about.st_mtim.tv_sec != changed_.tv_sec || about.st_mtim.tv_nsec != changed_.tv_nsec) {
    throw UserError(path_.string(),
                    "has changed while it was in use (what was read of it before may not belong to "
                    "what it holds now). Do not write to data during a run; start again, or "
                    "--resume.");
  }
  while (!out.empty()) {
    const ssize_t got = ::pread(file_.get(), out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw SystemError("reading " + path_.string() + " failed: " + std::strerror(errno));
    }
    if (got == 0) {
      throw UserError(path_.string(),
                      format("ends at byte %lld (more is needed). Fetch or make the file again.",
                             static_cast<long long>(offset)));
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace hetpipe
