// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi_watchdog.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/blocked_signals.h"
#include "base/temporary_file.h"

namespace hetpipe {

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

Watchdog::Watchdog(std::string doing, double seconds, int exit_code)
    : doing_(std::move(doing)), seconds_(seconds), exit_code_(exit_code) {
  const BlockedSignals in_the_thread;
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    returned_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, std::chrono::duration<double>(seconds_), [&] { return returned_; })) {
    return;
  }
  std::fprintf(stderr,
               "%s on host %s has not returned after %.1f s (another rank did not start or has "
               "died?). This rank ends with exit code %d.\n",
               doing_.c_str(), host_name().c_str(), seconds_, exit_code_);
  std::fflush(nullptr);
  remove_temporary_files();
  std::_Exit(exit_code_);
}

}  // namespace hetpipe
