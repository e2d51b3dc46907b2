// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace hetpipe {

// While it lives, the calling thread is inside a call that may hang. After the time it prints one
// line that names the call and the host, and ends the process at once with this code: nothing else
// can end such a call.
class Watchdog {
 public:
  Watchdog(std::string doing, double seconds, int exit_code);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch();

  std::string doing_;  // "rank 1: MPI_Finalize"
  double seconds_;
  int exit_code_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool returned_ = false;  // under mutex_
  std::thread thread_;
};

std::string host_name();

}  // namespace hetpipe
