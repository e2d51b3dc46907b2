// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/program_output.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/time.h"
#include "launch/launcher/child.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// A file of its own for what a program says.
class Said {
 public:
  Said() : file_((fs::temp_directory_path() / "hetpipe-said-XXXXXX").string()) {
    const int file = ::mkstemp(file_.data());
    if (file < 0) throw SystemError("cannot create " + file_ + ": " + std::strerror(errno));
    ::close(file);
  }
  ~Said() { ::unlink(file_.c_str()); }
  Said(const Said&) = delete;
  Said& operator=(const Said&) = delete;
  const std::string& file() const { return file_; }

 private:
  std::string file_;
};

}  // namespace

ProgramOutput output_of(const std::vector<std::string>& words, double seconds) {
  std::vector<std::string> found = words;
  found.front() = find_program(words.front());
  if (found.front().empty()) throw SystemError(words.front() + " is not in PATH");
  const Said said;
  const std::int64_t end = now_ns() + to_ns(seconds);
  bool late = false;
  ProgramOutput output;
  output.code = run_child(found, said.file(), [&] { return late = late || now_ns() > end; });
  if (late) {
    throw SystemError(format("'%s' did not end within %g s", join(words, " ").c_str(), seconds));
  }
  output.text = read_file(said.file());
  return output;
}

}  // namespace hetpipe
