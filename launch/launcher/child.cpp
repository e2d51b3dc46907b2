// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{20};
constexpr std::chrono::seconds kPatience{15};  // for a child that was asked to end
constexpr int kNotStarted = 127;

std::atomic<bool> interrupted{false};
struct sigaction before_int;
struct sigaction before_term;

// Between fork and exec: only what is safe there.
[[noreturn]] void become(const std::vector<char*>& words, int said, int nothing, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(kNotStarted);  // it went before the line above
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  ::signal(SIGPIPE, SIG_DFL);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(said, STDOUT_FILENO);
  ::dup2(said, STDERR_FILENO);
  ::execv(words.front(), words.data());
  ::_exit(kNotStarted);
}

int open_or_throw(const char* path, int flags) {
  const int file = ::open(path, flags | O_CLOEXEC, 0666);
  if (file < 0) {
    throw SystemError(format("%s cannot be opened: %s", path, std::strerror(errno)));
  }
  return file;
}

// A file of its own for what a program says.
class Said {
 public:
  Said() {
    std::string name = (std::filesystem::temp_directory_path() / "hetpipe-said-XXXXXX").string();
    const int file = ::mkstemp(name.data());
    if (file < 0) throw SystemError("cannot create " + name + ": " + std::strerror(errno));
    ::close(file);
    file_ = TemporaryFile(std::move(name));
  }
  const std::string& file() const { return file_.path(); }

 private:
  TemporaryFile file_;
};

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string& folder : split(path == nullptr ? "" : path, ':')) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

Interrupts::Interrupts() {
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = true; };
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, &before_int);
  ::sigaction(SIGTERM, &action, &before_term);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &before_int, nullptr);
  ::sigaction(SIGTERM, &before_term, nullptr);
}

bool Interrupts::asked() { return interrupted; }

int run_child(const std::vector<std::string>& words, const std::filesystem::path& said,
              const std::function<bool()>& stop) {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const int out = open_or_throw(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  const int nothing = open_or_throw("/dev/null", O_RDONLY);
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) become(pointers, out, nothing, self);
  ::close(out);
  ::close(nothing);
  if (child < 0) {
    throw SystemError(
        format("%s cannot be started: %s", words.front().c_str(), std::strerror(errno)));
  }
  ::setpgid(child, child);  // here too: whoever is first
  std::optional<Clock::time_point> asked;
  bool killed = false;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (!asked && stop()) {
      ::kill(child, SIGTERM);
      asked = Clock::now();
    }
    if (asked && !killed && Clock::now() - *asked > kPatience) {
      ::kill(-child, SIGKILL);
      killed = true;
    }
    std::this_thread::sleep_for(kLook);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
