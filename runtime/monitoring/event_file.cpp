// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "runtime/monitoring/event_record.h"

namespace hetpipe {
namespace {

// TensorBoard reads files with "tfevents" in their names, in the order of these.
std::string name_at(double time) {
  static std::atomic<int> number{0};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return format("events.out.tfevents.%010lld.%s.%d.%d", static_cast<long long>(time), host.data(),
                static_cast<int>(::getpid()), number++);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, double time)
    : path_(folder / name_at(time)),
      time_(time),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (!file_) throw SystemError("cannot write " + path_.string() + ": " + std::strerror(errno));
}

void EventFile::append(const std::string& records) {
  const std::string bytes = (bytes_ == 0 ? version_record(time_) : "") + records;
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t n = ::write(file_.get(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const std::string why = std::strerror(errno);
      if (::ftruncate(file_.get(), bytes_) != 0) file_ = OpenFile();  // it ends in half a record
      throw SystemError("cannot write " + path_.string() + ": " + why);
    }
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  bytes_ += static_cast<std::int64_t>(bytes.size());
}

}  // namespace hetpipe
