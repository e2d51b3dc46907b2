// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/wait.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kEager = 20'000;  // ns without sleep: the shortest sleep takes about as long
constexpr std::int64_t kFirstSleep = 1'000;        // ns
constexpr std::int64_t kLongestSleep = 1'000'000;  // ns
constexpr std::int64_t kSlice = 200'000;           // ns

timespec to_timespec(std::int64_t ns) {
  return {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
}

// Linux rounds a thread's sleeps up by 50 us by default.
void ask_for_precise_sleeps() {
  thread_local const bool asked = (::prctl(PR_SET_TIMERSLACK, 1'000UL, 0UL, 0UL, 0UL), true);
  (void)asked;
}

void sleep_for(std::int64_t ns) {
  ask_for_precise_sleeps();
  const timespec time = to_timespec(ns);
  ::nanosleep(&time, nullptr);  // a signal may end it early: callers loop
}

}  // namespace

double wait_until(const std::function<bool()>& ready, const std::function<void()>& poll,
                  double timeout_seconds, const std::function<std::string()>& what,
                  Alertness alertness) {
  const auto share = static_cast<std::int64_t>(alertness);
  const std::int64_t start = now_ns();
  for (;;) {
    poll();
    const std::int64_t now = now_ns();
    const double waited = seconds_between(start, now);
    if (ready()) return waited;
    if (waited >= timeout_seconds) {
      throw SystemError(format("waited %.1f s for %s", waited, what().c_str()));
    }
    if (now - start < kEager) continue;
    sleep_for(std::clamp((now - start) / share, kFirstSleep, kLongestSleep));
  }
}

void wait_until_time(std::int64_t deadline_ns, const std::function<void()>& poll) {
  for (;;) {
    poll();
    const std::int64_t left = deadline_ns - now_ns();
    if (left <= 0) return;
    if (left > kSlice) {
      sleep_for(kSlice);
    } else {
      ask_for_precise_sleeps();
      const timespec deadline = to_timespec(deadline_ns);
      ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
    }
  }
}

}  // namespace hetpipe
