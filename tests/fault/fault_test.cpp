// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "launched_training.h"

// Trainings under mpirun in which one rank fails: what is said, by whom, and how all leave. Ranks
// that are killed or stopped at any moment: kill_campaign.cpp.
namespace hetpipe::fault {
namespace fault_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class FaultTest : public LaunchedTraining {
 protected:
  std::vector<std::string> launch(double timeout, const std::vector<std::string>& more) const {
    return LaunchedTraining::launch("run", timeout, more);
  }
  fs::path output() const { return LaunchedTraining::output("run"); }
  std::string log() const { return LaunchedTraining::log("run"); }
  bool training_begins() const { return LaunchedTraining::training_begins("run"); }
  // The lines that begin with "rank N on", which must be one, the same in the log and on the
  // terminal.
  std::string the_line() const {
    std::vector<std::string> lines;
    for (const fs::path& file : {output() / "train.log", said()}) {
      for (const std::string& line : split(contents(file), '\n')) {
        if (line.starts_with("rank ")) lines.push_back(line);
      }
    }
    EXPECT_EQ(lines.size(), 2u) << contents(said());
    if (lines.size() != 2) return "";
    EXPECT_EQ(lines[0], lines[1]);
    return lines[0];
  }
};

TEST_F(FaultTest, AKilledServerIsNamedWithTheLastActionsOfAll) {
  LaunchedJob job(launch(never(), {"--flight-recorder", "4"}), output(), said());
  ASSERT_TRUE(training_begins());
  ::kill(job.ranks().at(4), SIGKILL);
  EXPECT_TRUE(job.wait(10)) << "all exit at once, and not after a time-out";
  EXPECT_EQ(job.left_after(1), 0);
  EXPECT_THAT(the_line(), AllOf(StartsWith("rank 4 on "), HasSubstr("(parameter server 0 of n0, "),
                                HasSubstr("has died while ")));
  const std::string text = log();
  const std::size_t flights = text.find("last actions");
  ASSERT_NE(flights, std::string::npos) << text;
  EXPECT_THAT(text.substr(flights), AllOf(HasSubstr("rank 0 on"), HasSubstr("rank 4 on"),
                                          HasSubstr(" received wave "), HasSubstr("  V")));
}

// Nobody hears what is written to a terminal then; the log says why the ranks ended.
TEST_F(FaultTest, AKilledLauncherIsNamedInTheLog) {
  LaunchedJob job(launch(never(), {}), output(), said());
  ASSERT_TRUE(training_begins());
  job.signal(SIGKILL);
  EXPECT_EQ(job.wait(10), 128 + SIGKILL);
  EXPECT_EQ(job.left_after(5), 0);
  std::vector<std::string> lines;
  for (const std::string& line : split(log(), '\n')) {
    if (line.starts_with("rank ")) lines.push_back(line);
  }
  EXPECT_THAT(lines,
              testing::ElementsAre(AllOf(
                  ContainsRegex("^rank [0-4] on [^ ]+: its launcher is gone \\([a-z]+, process"),
                  HasSubstr("--resume"))));
}

TEST_F(FaultTest, ARankThatFailsIsHeardOnceAndAllLeaveWithItsCode) {
  LaunchedJob job(launch(never(), {"--learning-rate", "1e6"}), output(), said());
  EXPECT_EQ(job.wait(60), 4);
  EXPECT_EQ(job.left_after(5), 0);
  EXPECT_THAT(the_line(), AllOf(HasSubstr(" on "), HasSubstr("Lower --learning-rate")));
}

// Rank 0 measures the model, for lack of a profile, while the others wait for what it will say.
TEST_F(FaultTest, ARankThatDiesAtTheStartIsNamedAndNobodyWaitsForIt) {
  std::vector<std::string> words{MPIEXEC_COMMAND,
                                 "--oversubscribe",
                                 "--enable-recovery",
                                 "-n",
                                 "5",
                                 HETPIPE_COMMAND,
                                 "train",
                                 "--plan",
                                 folder_ / "one-server.toml",
                                 "--cluster",
                                 folder_ / "cluster.toml",
                                 "--data",
                                 folder_ / "data",
                                 "--output",
                                 output(),
                                 "--timeout",
                                 format("%g", never())};
  ::setenv("HETPIPE_CACHE", (folder_ / "cache").c_str(), 1);  // measured before nowhere
  LaunchedJob job(words, output(), said());
  ::unsetenv("HETPIPE_CACHE");
  ASSERT_TRUE(test::comes_true(
      [&] { return contents(said()).find("measuring mlp on this machine") != std::string::npos; },
      30))
      << contents(said());
  ::kill(job.ranks().at(3), SIGKILL);
  EXPECT_TRUE(job.wait(10)) << "all exit at once, and not after a time-out";
  EXPECT_EQ(job.left_after(1), 0);
  EXPECT_THAT(contents(said()), AllOf(HasSubstr("rank 3 on "), HasSubstr("has died while")));
}

// The thread that plays the schedule hangs; the lifeline's continues to say that the rank is there.
TEST_F(FaultTest, AHungRankIsNamedByThoseThatWaitForIt) {
  constexpr double kTimeout = 8;  // s; where nothing hangs, nobody waits so long
  LaunchedJob job(launch(kTimeout, {}), output(), said());
  ASSERT_TRUE(training_begins());
  const pid_t victim = job.ranks().at(1);
  if (::ptrace(PTRACE_SEIZE, victim, nullptr, nullptr) != 0) {
    GTEST_SKIP() << "this system does not let one process hold another's thread (ptrace)";
  }
  ASSERT_EQ(::ptrace(PTRACE_INTERRUPT, victim, nullptr, nullptr), 0);
  test::comes_true(
      [&] {
        ::waitpid(victim, nullptr, WNOHANG | __WALL);  // who holds a process hears of its end first
        return job.try_end().has_value();
      },
      2 * kTimeout);
  EXPECT_EQ(job.try_end(), 3);
  EXPECT_EQ(job.left_after(1), 0);
  EXPECT_THAT(the_line(), AllOf(ContainsRegex(": waited [0-9.]+ s for "), HasSubstr("; rank 1 on "),
                                HasSubstr("(n1:0, virtual worker 0, stage 1, pid "),
                                HasSubstr("was last seen ")));
}

}  // namespace fault_test
}  // namespace hetpipe::fault
