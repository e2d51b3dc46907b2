// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/blocked_signals.h"
#include "base/ids.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/messages.h"

namespace hetpipe {

// While it lives, SIGUSR1 and SIGTERM ask this process to stop when it can, instead of ending it. A
// second one that comes later than the first (launchers send the same request twice at once) means
// exit now: the process ends soon, whatever it is doing. Handlers run in a thread of its own: this
// one and those that it starts meanwhile compute, and generated matrix products of oneDNN before
// 3.11.2 keep their stack pointer on the heap, where a handler would write over what lies below
// (uxlfoundation/oneDNN issue 4845).
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();  // what was in force before comes back, unless the exit code was settled
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on until the process ends, both signals change nothing: all ranks leave with one exit
  // code, and launchers (srun -K) end the slower ones by SIGTERM once the first has left with a
  // code that is not 0. The job's code would become that of the signal.
  static void exit_code_is_settled();

  // The first signal that came. Throws SystemError once there was a second.
  static std::optional<int> wanted();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // under mutex_
  std::thread handler_;
  BlockedSignals elsewhere_;  // after the thread that takes them
};

const char* signal_name(int signal);

// Instead of a signal's number: the accuracy that the run was to reach has been reached; the waves
// after which it was to rehearse being preempted are done.
inline constexpr int kTargetReached = 0;
inline constexpr int kRehearsal = -1;

// Which rank was asked to stop the run, and how.
struct StopWanted {
  Rank rank;
  int signal = 0;  // or one of these
};

// A rank's part in stopping on request: passes a signal that it got on to the coordinator
// (Roles::coordinator()), which decides where all stop (runtime/sync/stop_agreement.h), and applies
// the decision when it comes.
class StopListener {
 public:
  // stop_wanted: the signal that came (or one of the above), if one did; may be empty. apply:
  // called once.
  StopListener(RankService& service, Rank decides, std::function<std::optional<int>()> stop_wanted,
               std::function<void(const StopAt&)> apply);

 private:
  bool requested_ = false;
};

}  // namespace hetpipe
