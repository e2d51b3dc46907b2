// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_trial.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr const char* kAnotherFile = "). Fetch or make the file again.";

[[noreturn]] void be_the_child(const std::function<void()>& read) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) ::signal(number, SIG_DFL);
  try {
    read();
  } catch (const std::exception&) {
    // The caller meets it again, and says it.
  }
  std::_Exit(0);
}

}  // namespace

void try_in_a_child(const std::string& file, double seconds, const std::function<void()>& read) {
  const pid_t child = ::fork();
  if (child < 0) {
    throw SystemError("cannot start a process that tries " + file + ": " + std::strerror(errno));
  }
  if (child == 0) be_the_child(read);
  const std::int64_t start = now_ns();
  auto pause = std::chrono::microseconds(100);
  int status = 0;
  for (pid_t ended = 0; ended != child; ended = ::waitpid(child, &status, WNOHANG)) {
    if (ended < 0 && errno != EINTR) {
      throw SystemError("lost the process that tries " + file + ": " + std::strerror(errno));
    }
    if (seconds_between(start, now_ns()) > seconds) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      throw UserError(
          file, format("is damaged (HDF5 has not read it within %.0f s", seconds) + kAnotherFile);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(10'000));
  }
  if (WIFSIGNALED(status)) {
    throw UserError(
        file, format("is damaged (HDF5 crashes on it, signal %d", WTERMSIG(status)) + kAnotherFile);
  }
}

}  // namespace hetpipe
