// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace log_test {

std::string text_of(std::FILE* file) {
  std::string text(4096, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  return text;
}

// /dev/full takes nothing, as a full disk.
TEST(Log, AFileThatCannotBeWrittenIsWarnedOfOnce) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  {
    Log log(out, err, Log::Terminal::no);
    log.open_file("/dev/full");
    log.line("one");
    log.warning("two");
    log.line("three");
  }
  EXPECT_EQ(text_of(out), "one\nthree\n");
  EXPECT_EQ(text_of(err),
            "warning: cannot write to the log file (No space left on device): lines will be "
            "missing in it\nwarning: two\n");
  std::fclose(out);
  std::fclose(err);
}

}  // namespace log_test
}  // namespace hetpipe
