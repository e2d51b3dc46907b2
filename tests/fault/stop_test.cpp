// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/text.h"
#include "base/time.h"
#include "launched_job.h"
#include "runtime/store/checkpoint.h"
#include "small_training.h"

// Trainings under mpirun that are asked to stop by a signal, and what they are when they go on.
namespace hetpipe::fault {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string contents(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void nap(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

class StopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              format("hetpipe-stop-%d-%s", ::getpid(),
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    write_files(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) fs::remove_all(folder_);
  }

  std::vector<std::string> launch(const std::string& run,
                                  const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{MPIEXEC_COMMAND, "--oversubscribe", "-n",
                                   std::to_string(ranks(Shape::one_server))};
    for (const auto& part :
         {train_words(HETPIPE_COMMAND, folder_, Shape::one_server, folder_ / run, 30), more}) {
      words.insert(words.end(), part.begin(), part.end());
    }
    return words;
  }
  std::string log(const std::string& run) const { return contents(folder_ / run / "train.log"); }
  bool training_begins(const std::string& run) const {
    for (const std::int64_t start = now_ns(); seconds_between(start, now_ns()) < 60; nap(2)) {
      if (log(run).find("\nwave ") != std::string::npos) return true;
    }
    return false;
  }
  Checkpoint newest(const std::string& run) const {
    return read_checkpoint(*newest_checkpoint(folder_ / run / "checkpoints"));
  }

  fs::path folder_;
};

TEST_F(StopTest, AnyRankBySignalAndOnAgainBitForBit) {
  ASSERT_EQ(hetpipe::fault::run(launch("whole"), folder_ / "whole", folder_ / "said", 60), 0);
  const Checkpoint end = newest("whole");
  struct Case {
    const char* name;
    int rank;
    int signal;
  };
  for (const Case& c : {Case{"first-worker", 0, SIGUSR1}, Case{"last-stage", 3, SIGTERM},
                        Case{"server", 4, SIGUSR1}}) {
    SCOPED_TRACE(c.name);
    {
      LaunchedJob job(launch(c.name), folder_ / c.name, folder_ / "said");
      ASSERT_TRUE(training_begins(c.name));
      ::kill(job.ranks().at(c.rank), c.signal);
      ASSERT_EQ(job.wait(30), 75) << contents(folder_ / "said");
    }
    const Checkpoint stopped = newest(c.name);
    EXPECT_LT(stopped.label, end.label);
    EXPECT_THAT(log(c.name), HasSubstr(format("%s on rank %d: stopping at label %lld",
                                              c.signal == SIGTERM ? "SIGTERM" : "SIGUSR1", c.rank,
                                              static_cast<long long>(stopped.label))));
    EXPECT_THAT(log(c.name), HasSubstr("Go on with --resume"));
    ASSERT_EQ(hetpipe::fault::run(launch(c.name, {"--resume"}), folder_ / c.name,
                                  folder_ / "said", 60),
              0)
        << contents(folder_ / "said");
    EXPECT_THAT(log(c.name), HasSubstr("bit for bit as if it had not stopped"));
    const Checkpoint again = newest(c.name);
    EXPECT_EQ(again.label, end.label);
    EXPECT_TRUE(again.parameters == end.parameters);
    EXPECT_TRUE(again.slots == end.slots);
  }
}

// Nothing can be agreed on while the server is stopped; whoever asks twice does not want to wait.
TEST_F(StopTest, ASecondSignalEndsTheRunAtOnce) {
  LaunchedJob job(launch("twice"), folder_ / "twice", folder_ / "said");
  ASSERT_TRUE(training_begins("twice"));
  const auto ranks = job.ranks();
  ::kill(ranks.at(4), SIGSTOP);
  ::kill(ranks.at(0), SIGUSR1);
  nap(400);
  EXPECT_EQ(job.try_end(), std::nullopt);
  ::kill(ranks.at(0), SIGUSR1);
  EXPECT_EQ(job.wait(10), 3) << contents(folder_ / "said");
  EXPECT_THAT(log("twice"), HasSubstr("a second signal (SIGUSR1) came before the run had stopped"));
  EXPECT_EQ(job.left_after(2), 0);
}

}  // namespace
}  // namespace hetpipe::fault
