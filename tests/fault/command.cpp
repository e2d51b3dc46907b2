// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>

#include "tests/main/patience.h"

namespace hetpipe::test {
namespace {

namespace fs = std::filesystem;

int new_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) throw std::runtime_error("cannot make " + path.string());
  return fd;
}

}  // namespace

Ran run(const fs::path& folder, const std::vector<std::string>& words, const Limit& limit) {
  char name[] = "/tmp/fault.XXXXXX";
  if (::mkdtemp(name) == nullptr) throw std::runtime_error("no temporary folder");
  const fs::path place = name;
  const int out = new_file(place / "out");
  const int error = new_file(place / "error");
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    if (limit.memory > 0) {
      const rlimit bytes{limit.memory, limit.memory};
      ::setrlimit(RLIMIT_AS, &bytes);
    }
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    const int input = ::open("/dev/null", O_RDONLY);
    if (::chdir(folder.c_str()) != 0 || ::dup2(input, 0) < 0 || ::dup2(out, 1) < 0 ||
        ::dup2(error, 2) < 0) {
      ::_exit(126);
    }
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(out);
  ::close(error);
  int status = 0;
  const bool in_time =
      comes_true([&] { return ::waitpid(child, &status, WNOHANG) != 0; }, limit.seconds);
  if (!in_time) {
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  Ran ran;
  ran.code = !in_time ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ran.out = read(place / "out");
  ran.error = read(place / "error");
  fs::remove_all(place);
  return ran;
}

std::map<std::string, std::size_t> content_of(const fs::path& folder) {
  std::map<std::string, std::size_t> content;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    content[entry.path().string()] =
        entry.is_regular_file() ? std::hash<std::string>()(read(entry.path())) : 0;
  }
  return content;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

}  // namespace hetpipe::test
