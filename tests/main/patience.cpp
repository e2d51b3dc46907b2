// SPDX-License-Identifier: Apache-2.0
#include "tests/main/patience.h"

#include <chrono>
#include <cstdlib>
#include <thread>

namespace hetpipe::test {

double patience(double usual_seconds) {
  constexpr double kPace = 10;
  const char* given = std::getenv("HETPIPE_TEST_PACE");
  const double pace = given == nullptr ? kPace : std::atof(given);
  return usual_seconds * (pace > 0 ? pace : kPace);
}

bool comes_true(const std::function<bool()>& condition, double usual_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(patience(usual_seconds));
  while (!condition()) {
    if (Clock::now() > end) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace hetpipe::test
