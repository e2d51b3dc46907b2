// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace flight_recorder_test {

using testing::ElementsAre;
using testing::HasSubstr;

class FlightRecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              format("hetpipe-flight-%d-%s", ::getpid(),
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path file() const { return folder_ / "flight" / "rank-3"; }
  std::vector<std::string> texts() const {
    std::vector<std::string> texts;
    const auto flight = FlightRecorder::try_read(file());
    if (!flight) return {"no file"};
    for (const FlightEntry& entry : flight->entries) {
      texts.push_back((entry.doing == Doing::waiting ? "~" : "") + entry.text +
                      (entry.end_ns == 0 ? "..." : ""));
    }
    return texts;
  }

  std::filesystem::path folder_;
};

TEST_F(FlightRecorderTest, KeepsTheLastOnes) {
  FlightRecorder recorder(file(), Rank{3}, 3);
  EXPECT_THAT(texts(), ElementsAre());
  recorder.begin("F0");
  recorder.begin("F1");
  EXPECT_THAT(texts(), ElementsAre("F0", "F1..."));
  recorder.begin("F2");
  recorder.begin("B0");
  EXPECT_THAT(texts(), ElementsAre("F1", "F2", "B0..."));
  EXPECT_EQ(recorder.begun(), 4);
}

TEST_F(FlightRecorderTest, AWaitStandsInsideItsAction) {
  FlightRecorder recorder(file(), Rank{3}, 8);
  recorder.begin("V0");
  recorder.begin_wait("the gradient of minibatch 0 from rank 4", Rank{4});
  EXPECT_EQ(recorder.state().doing, Doing::waiting);
  EXPECT_EQ(recorder.state().waits_for, Rank{4});
  EXPECT_THAT(texts(), ElementsAre("V0...", "~the gradient of minibatch 0 from rank 4..."));
  recorder.end_wait();
  EXPECT_EQ(recorder.state().doing, Doing::working);
  EXPECT_EQ(recorder.state().text, "V0");
  recorder.begin("B0");
  EXPECT_THAT(texts(), ElementsAre("V0", "~the gradient of minibatch 0 from rank 4", "B0..."));
}

// A server acts while it waits.
TEST_F(FlightRecorderTest, WhatIsServedInsideAWaitEndsWithIt) {
  FlightRecorder recorder(file(), Rank{3}, 8);
  recorder.begin("serving");
  recorder.begin_wait("pushes", std::nullopt);
  recorder.begin("forming label 1");
  EXPECT_EQ(recorder.state().text, "forming label 1");
  recorder.resume_wait("pushes", std::nullopt);
  EXPECT_EQ(recorder.state().doing, Doing::waiting);
  EXPECT_THAT(texts(), ElementsAre("serving", "~pushes...", "forming label 1"));
}

TEST_F(FlightRecorderTest, TheCurrentActionIsKeptAlways) {
  FlightRecorder recorder(file(), Rank{3}, 0);
  EXPECT_EQ(recorder.state().doing, Doing::unknown);
  const std::int64_t before = now_ns();
  recorder.begin("reading data", Doing::long_phase);
  const auto flight = FlightRecorder::try_read(file());
  ASSERT_TRUE(flight);
  EXPECT_EQ(flight->state.text, "reading data");
  EXPECT_EQ(flight->state.doing, Doing::long_phase);
  EXPECT_GE(flight->state.since_ns, before);
  EXPECT_TRUE(flight->entries.empty());
}

TEST_F(FlightRecorderTest, LongTextsAreCut) {
  FlightRecorder recorder(file(), Rank{3}, 1);
  recorder.begin(std::string(1000, 'x'));
  EXPECT_EQ(recorder.state().text, std::string(128, 'x'));
}

TEST_F(FlightRecorderTest, OutlivesAKilledRank) {
  const pid_t child = ::fork();
  if (child == 0) {
    FlightRecorder recorder(file(), Rank{3}, 4);
    for (int i = 0; i < 10; ++i) recorder.begin(format("F%d", i));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(texts(), ElementsAre("F6", "F7", "F8", "F9..."));
  EXPECT_EQ(FlightRecorder::try_read(file())->state.text, "F9");
}

// The limit on a file's size stands for a full disk: both refuse to give the room.
TEST_F(FlightRecorderTest, RefusesADiskWithoutRoom) {
  ::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    try {
      FlightRecorder recorder(file(), Rank{3}, 1000);
      ::_exit(1);
    } catch (const SystemError& error) {
      ::_exit(std::string(error.what()).find("rank-3: ") != std::string::npos ? 0 : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(FlightRecorderTest, ReadsOnlyItsOwnFiles) {
  EXPECT_FALSE(FlightRecorder::try_read(file()));
  std::filesystem::create_directories(file().parent_path());
  for (const std::size_t size : {0u, 7u, 100u, 5000u}) {
    write_file(file(), std::string(size, 'x'));
    EXPECT_FALSE(FlightRecorder::try_read(file())) << size;
  }
}

// Another thread reads while the rank writes: what it sees is whole.
TEST_F(FlightRecorderTest, ReadersNeverSeeHalfAnEntry) {
  FlightRecorder recorder(file(), Rank{3}, 2);
  recorder.begin(std::string(100, 'a'));
  std::atomic<bool> over = false;
  std::atomic<int> seen = 0;
  int halves = 0;
  std::thread reader([&] {
    for (; !over; ++seen) {
      const std::string text = recorder.state().text;
      if (text != std::string(100, text.empty() ? ' ' : text[0])) ++halves;
    }
  });
  for (int i = 0; i < 100'000 || seen < 1000; ++i) {
    recorder.begin(std::string(100, static_cast<char>('a' + i % 26)));
  }
  over = true;
  reader.join();
  EXPECT_EQ(halves, 0) << "of " << seen;
}

TEST(Describe, SaysWhatARankIsDoing) {
  const std::int64_t now = to_ns(100);
  const auto since = [&](Doing doing, const char* text) {
    return describe({.doing = doing, .waits_for = {}, .since_ns = to_ns(95), .text = text}, now);
  };
  EXPECT_EQ(since(Doing::working, "B17"), "in B17 (for 5.0 s)");
  EXPECT_EQ(since(Doing::working, "forming label 3"), "forming label 3 (for 5.0 s)");
  EXPECT_EQ(since(Doing::waiting, "the gate of wave 2"),
            "waiting for the gate of wave 2 (for 5.0 s)");
  EXPECT_EQ(since(Doing::long_phase, "reading data"), "reading data (for 5.0 s)");
  EXPECT_EQ(describe(RankState{}, now), "at its start");
}

}  // namespace flight_recorder_test
}  // namespace hetpipe
