// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace hetpipe {

// While it lives, SIGUSR1 and SIGTERM ask this process to stop when it can, instead of ending it. A
// second one that comes later than the first (launchers send the same request twice at once) means
// exit at once: the process ends soon, whatever it is doing.
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
};

const char* signal_name(int signal);

}  // namespace hetpipe
