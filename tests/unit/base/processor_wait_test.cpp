// SPDX-License-Identifier: Apache-2.0
#include "base/processor_wait.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "base/time.h"

namespace hetpipe {
namespace processor_wait_test {

double processor_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void stay_on_one_core() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ASSERT_EQ(::sched_getaffinity(0, sizeof cores, &cores), 0);
  int first = 0;
  while (!CPU_ISSET(first, &cores)) ++first;
  CPU_ZERO(&cores);
  CPU_SET(first, &cores);
  ASSERT_EQ(::sched_setaffinity(0, sizeof cores, &cores), 0);
}

// Two threads share a core: each waits about as long as it runs.
TEST(ProcessorWait, CountsWhatOthersTake) {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) {
    GTEST_SKIP() << "this kernel keeps no account of a thread's waiting";
  }
  std::atomic<bool> over{false};
  double waited = 0, ran = 0, elapsed = 0;
  std::thread other([&] {
    stay_on_one_core();
    while (!over) {
    }
  });
  std::thread measured([&] {
    stay_on_one_core();
    const ProcessorWait wait;
    const double before = wait.seconds();
    const double start = processor_seconds();
    const std::int64_t start_ns = now_ns();
    while ((ran = processor_seconds() - start) < 0.05) {
    }
    waited = wait.seconds() - before;
    elapsed = seconds_between(start_ns, now_ns());
  });
  measured.join();
  over = true;
  other.join();
  EXPECT_GT(waited, 0.2 * ran);
  EXPECT_LT(waited, elapsed);
}

}  // namespace processor_wait_test
}  // namespace hetpipe
