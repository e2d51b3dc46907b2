// SPDX-License-Identifier: Apache-2.0
#include "base/processor_wait.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string_view>

namespace hetpipe {

ProcessorWait::ProcessorWait()
    : file_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}

// "<ns on a processor> <ns waited for one> <number of slices>"
double ProcessorWait::seconds() const {
  if (!file_) return 0;
  char text[96];
  const ssize_t read = ::pread(file_.get(), text, sizeof text, 0);
  if (read <= 0) return 0;
  const std::string_view line(text, static_cast<std::size_t>(read));
  const std::size_t space = line.find(' ');
  if (space == line.npos) return 0;
  std::int64_t ns = 0;
  std::from_chars(line.data() + space + 1, line.data() + line.size(), ns);
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace hetpipe
