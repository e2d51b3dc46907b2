// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/stop.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "base/time.h"
#include "kernels/device.h"
#include "kernels/devices.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace stop_signals_test {

using testing::ExitedWithCode;
using testing::KilledBySignal;

void send(int signal) { ::kill(::getpid(), signal); }  // to the process, as others do

bool wanted(int signal) {
  return test::comes_true([&] { return StopSignals::wanted() == signal; });
}

// Each in a process of its own.
TEST(StopSignalsDeathTest, AskOnceAndWhatWasInForceComesBack) {
  const auto asked = [] {
    {
      const StopSignals signals;
      send(SIGTERM);
      if (!wanted(SIGTERM)) std::_Exit(1);
    }
    send(SIGTERM);
    std::_Exit(0);
  };
  EXPECT_EXIT(asked(), KilledBySignal(SIGTERM), "");
}

// Launchers send SIGTERM to ranks that leave later than the first.
TEST(StopSignalsDeathTest, ChangeNothingOnceTheExitCodeIsSettled) {
  const auto leaving = [] {
    {
      const StopSignals signals;
      send(SIGUSR1);
      if (!wanted(SIGUSR1)) std::_Exit(1);
      StopSignals::exit_code_is_settled();
      send(SIGTERM);
    }
    send(SIGTERM);
    send(SIGUSR1);
    std::exit(75);
  };
  EXPECT_EXIT(leaving(), ExitedWithCode(75), "");
}

// A matrix product of oneDNN 2.6.3 that a handler interrupts leaves a damaged heap (AVX2, AVX-512).
TEST(StopSignalsDeathTest, DoNotInterruptWhatIsComputed) {
  const auto computing = [] {
    const StopSignals signals;
    const std::unique_ptr<Device> device = make_device("cpu", 1);
    const std::unique_ptr<Stream> stream = device->make_stream();
    const auto kernel = device->make_kernel(Linear{.output_features = 200}, {Shape{8, 100}}, 0);
    const std::vector<float> x(8 * 100, 1.F);
    const std::vector<float> weight(100 * 200, 0.5F);
    const std::vector<float> bias(200, 1.F);
    std::vector<float> y(8 * 200);
    const std::byte* input = reinterpret_cast<const std::byte*>(x.data());
    const std::vector<const float*> parameters{weight.data(), bias.data()};
    std::atomic<bool> over{false};
    std::thread sender([&] {
      while (!over) send(SIGUSR1);
    });
    const std::int64_t start = now_ns();
    while (seconds_between(start, now_ns()) < 0.5) {
      kernel->forward(*stream, {.inputs = {&input, 1},
                                .parameters = parameters,
                                .statistics = {},
                                .output = reinterpret_cast<std::byte*>(y.data()),
                                .samples = {}});
      stream->synchronize();
    }
    over = true;
    sender.join();
    const bool right = std::all_of(y.begin(), y.end(), [](float one) { return one == 51; });
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(computing(), ExitedWithCode(0), "");
}

}  // namespace stop_signals_test
}  // namespace hetpipe
