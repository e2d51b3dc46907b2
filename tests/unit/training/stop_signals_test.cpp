// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/stop.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>

namespace hetpipe {
namespace stop_signals_test {

using testing::ExitedWithCode;
using testing::KilledBySignal;

// Each in a process of its own.
TEST(StopSignalsDeathTest, AskOnceAndWhatWasInForceComesBack) {
  const auto asked = [] {
    {
      const StopSignals signals;
      ::raise(SIGTERM);
      if (StopSignals::wanted() != SIGTERM) std::_Exit(1);
    }
    ::raise(SIGTERM);
    std::_Exit(0);
  };
  EXPECT_EXIT(asked(), KilledBySignal(SIGTERM), "");
}

// Launchers send SIGTERM to ranks that leave later than the first.
TEST(StopSignalsDeathTest, ChangeNothingOnceTheExitCodeIsSettled) {
  const auto leaving = [] {
    {
      const StopSignals signals;
      ::raise(SIGUSR1);
      StopSignals::exit_code_is_settled();
      ::raise(SIGTERM);
    }
    ::raise(SIGTERM);
    ::raise(SIGUSR1);
    std::exit(75);
  };
  EXPECT_EXIT(leaving(), ExitedWithCode(75), "");
}

}  // namespace stop_signals_test
}  // namespace hetpipe
