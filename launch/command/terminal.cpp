// SPDX-License-Identifier: Apache-2.0
#include "launch/command/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "launch/launcher/launched.h"

namespace hetpipe {
namespace {

struct Process {
  std::string name;
  long parent = 0;
};

// From /proc/PID/stat: "PID (name) state parent ..."; the name may hold spaces and parentheses.
bool look_up(long pid, Process& process) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return false;
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos || close + 4 >= text.size()) return false;
  process.name = text.substr(open + 1, close - open - 1);
  process.parent = std::strtol(text.c_str() + close + 4, nullptr, 10);
  return true;
}

// The mpirun among this process's ancestors (possibly with shells in between); 0: none on this
// host.
long mpirun_process() {
  static constexpr std::array<std::string_view, 4> kNames{"mpirun", "mpiexec", "orterun",
                                                          "prterun"};
  Process process;
  for (long pid = ::getppid(); pid > 1 && look_up(pid, process); pid = process.parent) {
    if (std::find(kNames.begin(), kNames.end(), process.name) != kNames.end()) return pid;
  }
  return 0;
}

bool is_terminal(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return false;
  const bool terminal = ::isatty(fd) == 1;
  ::close(fd);
  return terminal;
}

}  // namespace

bool people_watch() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  const auto here = launched();
  if (!here || here->by != "mpirun") return true;
  const long mpirun = mpirun_process();
  return mpirun > 0 && is_terminal("/proc/" + std::to_string(mpirun) + "/fd/1");
}

int line_width() {
  constexpr int kUsual = 100;
  constexpr int kNarrowest = 40;
  constexpr int kWidest = 1000;
  winsize size{};
  long columns = 0;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  if (columns == 0) {
    const char* given = std::getenv("COLUMNS");
    if (given != nullptr) columns = std::strtol(given, nullptr, 10);
  }
  return columns <= 0 ? kUsual : static_cast<int>(std::clamp<long>(columns, kNarrowest, kWidest));
}

int terminal_rows() {
  constexpr int kUsual = 24;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0;
  return known ? size.ws_row : kUsual;
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  for (const std::string& word : split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n' + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

}  // namespace hetpipe
