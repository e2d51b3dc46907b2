// SPDX-License-Identifier: Apache-2.0
#include "launched_job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/main/patience.h"

namespace hetpipe::fault {
namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::optional<int> rank_of(pid_t pid) {
  const std::string environment = '\0' + contents("/proc/" + std::to_string(pid) + "/environ");
  const std::string name = std::string(1, '\0') + "OMPI_COMM_WORLD_RANK=";
  const std::size_t at = environment.find(name);
  if (at == std::string::npos) return std::nullopt;
  return std::atoi(environment.c_str() + at + name.size());
}

}  // namespace

LaunchedJob::LaunchedJob(const std::vector<std::string>& words, const std::string& mark,
                         const fs::path& output)
    : mark_(mark) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans come here
  command_ = ::fork();
  if (command_ != 0) return;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

LaunchedJob::~LaunchedJob() {
  if (!try_end()) ::kill(-command_, SIGKILL);
  for (const pid_t pid : processes()) ::kill(pid, SIGKILL);
  wait(10);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

std::vector<pid_t> LaunchedJob::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == command_ || pid == ::getpid()) continue;
    // The mark is one whole word; zombies have none.
    const std::string words = contents(entry.path() / "cmdline");
    if (words.find('\0' + mark_ + '\0') != std::string::npos) found.push_back(pid);
  }
  return found;
}

std::map<int, pid_t> LaunchedJob::ranks() const {
  std::map<int, pid_t> ranks;
  for (const pid_t pid : processes()) {
    if (const auto rank = rank_of(pid)) ranks[*rank] = pid;
  }
  return ranks;
}

void LaunchedJob::signal(int number) const {
  if (!code_) ::kill(command_, number);
}

std::optional<int> LaunchedJob::try_end() {
  int status = 0;
  if (!code_ && ::waitpid(command_, &status, WNOHANG) == command_) {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return code_;
}

std::optional<int> LaunchedJob::wait(double usual_seconds) {
  test::comes_true([this] { return try_end().has_value(); }, usual_seconds);
  return code_;
}

int LaunchedJob::left_after(double usual_seconds) const {
  test::comes_true([this] { return processes().empty(); }, usual_seconds);
  return static_cast<int>(processes().size());
}

std::optional<int> run(const std::vector<std::string>& words, const std::string& mark,
                       const fs::path& output, double usual_seconds) {
  LaunchedJob job(words, mark, output);
  return job.wait(usual_seconds);
}

}  // namespace hetpipe::fault
