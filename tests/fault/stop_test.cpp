// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "launched_training.h"
#include "runtime/store/checkpoint.h"

// Trainings under mpirun that are asked to stop by a signal, and what they are when they continue.
namespace hetpipe::fault {
namespace stop_test {

using testing::ContainsRegex;
using testing::HasSubstr;

class StopTest : public LaunchedTraining {
 protected:
  Checkpoint newest(const std::string& run) const {
    return read_checkpoint(*newest_checkpoint(output(run) / "checkpoints"));
  }
};

TEST_F(StopTest, AnyRankBySignalAndOnAgainBitForBit) {
  ASSERT_EQ(hetpipe::fault::run(launch("whole", never()), output("whole"), said(), 60), 0);
  const Checkpoint end = newest("whole");
  struct Case {
    const char* name;
    int rank;
    int signal;
    const char* notice;  // seconds; 0: not known
  };
  for (const Case& c :
       {Case{"first-worker", 0, SIGUSR1, "0"}, Case{"last-stage", 3, SIGTERM, "1e-6"},
        Case{"server", 4, SIGUSR1, "1e-6"}}) {
    SCOPED_TRACE(c.name);
    {
      LaunchedJob job(launch(c.name, never(), {"--notice", c.notice}), output(c.name), said());
      ASSERT_TRUE(training_begins(c.name));
      ::kill(job.ranks().at(c.rank), c.signal);
      ASSERT_EQ(job.wait(30), 75) << contents(said());
    }
    const Checkpoint stopped = newest(c.name);
    EXPECT_LT(stopped.label, end.label);
    EXPECT_THAT(log(c.name),
                ContainsRegex(format("%s on rank %d: stopping (after|inside of) wave %lld",
                                     c.signal == SIGTERM ? "SIGTERM" : "SIGUSR1", c.rank,
                                     static_cast<long long>(stopped.label))));
    EXPECT_THAT(log(c.name), HasSubstr("Run again with --resume"));
    ASSERT_EQ(
        hetpipe::fault::run(launch(c.name, never(), {"--resume"}), output(c.name), said(), 60), 0)
        << contents(said());
    EXPECT_THAT(log(c.name), HasSubstr("bit for bit as if it had not stopped"));
    const Checkpoint again = newest(c.name);
    EXPECT_EQ(again.label, end.label);
    EXPECT_TRUE(again.parameters == end.parameters);
    EXPECT_TRUE(again.slots == end.slots);
  }
}

// Open MPI passes it on, kills what is left after the time that is set here, for which it waits in
// any case, and returns 1 whatever the ranks return.
TEST_F(StopTest, TheLauncherItself) {
  std::vector<std::string> words = launch("run", never());
  *(std::find(words.begin(), words.end(), "--epochs") + 1) = "1000";  // TERM comes 2 s later
  const std::vector<std::string> patient{"--mca", "odls_base_sigkill_timeout", "2"};
  words.insert(words.begin() + 1, patient.begin(), patient.end());
  LaunchedJob job(words, output("run"), said());
  ASSERT_TRUE(training_begins("run"));
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(30), 1) << contents(said());
  EXPECT_THAT(log("run"), HasSubstr("stopped on request after wave "));
  EXPECT_EQ(job.left_after(5), 0);
}

// The first virtual worker's first stage decides; evaluations that will not come are not waited
// for.
TEST_F(StopTest, WithoutServers) {
  const std::vector<std::string> more{"--evaluate-every", "2"};
  ASSERT_EQ(hetpipe::fault::run(launch("whole", never(), more, Shape::dapple), output("whole"),
                                said(), 60),
            0);
  const Checkpoint end = newest("whole");
  for (const Shape shape : {Shape::dapple, Shape::spectrain}) {
    const std::string run = name(shape);
    SCOPED_TRACE(run);
    {
      LaunchedJob job(launch(run, never(), more, shape), output(run), said());
      ASSERT_TRUE(training_begins(run));
      ::kill(job.ranks().at(ranks(shape) - 1), SIGUSR1);
      ASSERT_EQ(job.wait(30), 75) << contents(said());
    }
    EXPECT_LT(newest(run).label, end.label);
    auto again = more;
    again.push_back("--resume");
    ASSERT_EQ(hetpipe::fault::run(launch(run, never(), again, shape), output(run), said(), 60), 0)
        << contents(said());
    EXPECT_EQ(newest(run).sampler.consumed, end.sampler.consumed);
    if (shape != Shape::dapple) continue;  // what was in flight has begun again
    EXPECT_TRUE(newest(run).parameters == end.parameters);
    EXPECT_TRUE(newest(run).slots == end.slots);
  }
}

// Nothing can be agreed on while the server is stopped; whoever asks twice does not want to wait.
// Signals of one moment are one request, so the second is sent until it counts.
TEST_F(StopTest, ASecondSignalEndsTheRunAtOnce) {
  LaunchedJob job(launch("twice", never()), output("twice"), said());
  ASSERT_TRUE(training_begins("twice"));
  const auto ranks = job.ranks();
  ::kill(ranks.at(4), SIGSTOP);
  ::kill(ranks.at(0), SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  EXPECT_EQ(job.try_end(), std::nullopt);
  EXPECT_TRUE(test::comes_true([&] {
    if (!job.try_end()) ::kill(ranks.at(0), SIGUSR1);
    return job.try_end().has_value();
  }));
  EXPECT_EQ(job.try_end(), 3) << contents(said());
  EXPECT_THAT(log("twice"), HasSubstr("a second signal (SIGUSR1) came before the run had stopped"));
  EXPECT_EQ(job.left_after(2), 0);
}

}  // namespace stop_test
}  // namespace hetpipe::fault
