// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/launcher_process.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/text.h"

namespace hetpipe {
namespace {

// Of Open MPI 4 and 5 and of Slurm, as the kernel has them.
constexpr std::string_view kLaunchers[] = {"mpirun", "mpiexec", "orterun", "orted",
                                           "prte",   "prterun", "prted",   "slurmstepd"};

std::string command_of(int pid) {
  std::ifstream file(format("/proc/%d/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

bool LauncherProcess::gone() const { return ::getppid() != pid; }

std::optional<LauncherProcess> launcher_process() {
  LauncherProcess launcher{.name = {}, .pid = ::getppid(), .ended = {}};
  launcher.name = command_of(launcher.pid);
  if (std::find(std::begin(kLaunchers), std::end(kLaunchers), launcher.name) ==
      std::end(kLaunchers)) {
    return std::nullopt;
  }
#ifdef SYS_pidfd_open
  launcher.ended = Socket(static_cast<int>(::syscall(SYS_pidfd_open, launcher.pid, 0)));
#endif
  return launcher;
}

}  // namespace hetpipe
