// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/time.h"
#include "runtime/transport/link_emulation.h"
#include "runtime/transport/wait.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace transport_parts_test {

using test::patience;

constexpr std::int64_t kMs = 1'000'000;
const EmulatedLink kLink{
    .bandwidth = 1e6, .latency = 2e-3, .resources = {0, 1}};  // 1000 bytes: 1 ms

TEST(LinkClock, DeliversAfterQueueTransferAndLatency) {
  const auto clock = LinkClock::in_process(3);
  EXPECT_EQ(clock->reserve(kLink, 10'000, 100 * kMs), 112 * kMs);
  EXPECT_EQ(clock->reserve(kLink, 10'000, 105 * kMs), 122 * kMs);  // queues till 110
  EXPECT_EQ(clock->reserve(kLink, 10'000, 200 * kMs), 212 * kMs);  // free again
  EXPECT_EQ(clock->reserve(kLink, 0, 201 * kMs), 212 * kMs);       // an empty one queues as well
}

// Through the longest queue of what a link passes; each has its own.
TEST(LinkClock, StandsInLineAtEveryResourceOfALink) {
  const auto clock = LinkClock::in_process(3);
  const EmulatedLink out{.bandwidth = 1e6, .latency = 0, .resources = {0}};
  const EmulatedLink in{.bandwidth = 2e6, .latency = 0, .resources = {1}};
  const EmulatedLink other{.bandwidth = 1e6, .latency = 0, .resources = {2}};
  EXPECT_EQ(clock->reserve(out, 30'000, 0), 30 * kMs);
  EXPECT_EQ(clock->reserve(in, 20'000, 0), 10 * kMs);
  EXPECT_EQ(clock->reserve(kLink, 5'000, 0), 37 * kMs);
  EXPECT_EQ(clock->reserve(in, 2'000, 0), 16 * kMs) << "not behind what it does not pass";
  EXPECT_EQ(clock->reserve(out, 1'000, 0), 36 * kMs);
  EXPECT_EQ(clock->reserve(other, 1'000, 0), 1 * kMs);
}

TEST(LinkClock, LosesNothingAmongThreads) {
  const auto clock = LinkClock::in_process(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) clock->reserve(kLink, 1'000, 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clock->reserve(kLink, 0, 0), 2002 * kMs);
}

class LinkClockFile : public testing::Test {
 protected:
  std::string path_ = (std::filesystem::temp_directory_path() /
                       ("hetpipe-link-clock-" + std::to_string(::getpid())))
                          .string();
};

TEST_F(LinkClockFile, IsSharedByProcesses) {
  const auto clock = LinkClock::in_file(path_, 2, true);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto same = LinkClock::in_file(path_, 2, false);
    ::_exit(same->reserve(kLink, 10'000, 0) == 12 * kMs ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(clock->reserve(kLink, 10'000, 0), 22 * kMs);
}

TEST_F(LinkClockFile, RefusesAFileOfAnotherRun) {
  const auto refused = [&](int resources) {
    try {
      LinkClock::in_file(path_, resources, false);
    } catch (const SystemError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused(2), testing::HasSubstr("open: No such file"));
  {
    const auto clock = LinkClock::in_file(path_, 2, true);
    EXPECT_THAT(refused(3), testing::HasSubstr("bytes where"));
    EXPECT_EQ(refused(2), "");
    const auto size = std::filesystem::file_size(path_);
    std::filesystem::resize_file(path_, 0);  // zeros from here on
    std::filesystem::resize_file(path_, size);
    EXPECT_THAT(refused(2), testing::HasSubstr("not one of this run"));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));  // its creator removed it
}

TEST(WaitUntil, PollsBeforeItAsks) {
  int polls = 0;
  wait_until([&] { return polls == 50; }, [&] { ++polls; }, 10,
             [] { return std::string("polls"); });
  EXPECT_EQ(polls, 50);
}

TEST(WaitUntil, NamesWhatItWaitedFor) {
  const std::int64_t start = now_ns();
  try {
    wait_until([] { return false; }, [] {}, 0.05, [] { return std::string("stage 2's F3"); });
    ADD_FAILURE() << "returned";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), testing::MatchesRegex("waited [0-9]+\\.[0-9] s for stage 2's F3"));
  }
  EXPECT_GE(now_ns() - start, 50 * kMs);
}

// It looks about once in a millisecond, however fast it could: a count, which a busy machine
// lowers.
TEST(WaitUntil, LeavesTheCoreToOthers) {
  const std::int64_t end = now_ns() + 300 * kMs;
  int looks = 0;
  const double waited = wait_until([&] { return now_ns() >= end; }, [&] { ++looks; }, patience(10),
                                   [] { return std::string("the time"); });
  EXPECT_LT(looks, 2000 + 1000 * waited);
}

TEST(WaitUntilTime, NeverReturnsEarlyAndPollsMeanwhile) {
  int most_polls = 0;
  for (int i = 0; i < 5 || (most_polls < 4 && i < 15); ++i) {  // the longer, the more of them
    int polls = 0;
    const std::int64_t deadline = now_ns() + (std::int64_t{5} << i) * kMs / 4 + i * 137'000;
    wait_until_time(deadline, [&] { ++polls; });
    EXPECT_GE(now_ns(), deadline);
    most_polls = std::max(most_polls, polls);
  }
  EXPECT_GE(most_polls, 4);
}

}  // namespace transport_parts_test
}  // namespace hetpipe
