// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/text.h"
#include "base/time.h"

// Ranks are processes that this test forks: they can be killed and stopped like real ones. In place
// of MPI they exchange bytes through files.
namespace hetpipe {
namespace lifeline_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Seconds = std::chrono::duration<double>;

constexpr double kTimeout = 2;  // s

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void nap() { std::this_thread::sleep_for(Seconds(0.005)); }

bool appears(const fs::path& path, double seconds) {
  for (const std::int64_t start = now_ns(); seconds_between(start, now_ns()) < seconds; nap()) {
    if (fs::exists(path)) return true;
  }
  return false;
}

// One rank's life: polls until the job ends, or until the file "over" says that all is done.
class ForkedRank {
 public:
  ForkedRank(fs::path folder, int rank, int ranks)
      : folder_(std::move(folder)), rank_(rank), ranks_(ranks) {}

  [[noreturn]] void live() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    LifelineSetup setup{
        .rank = Rank{rank_},
        .machines = std::vector<std::string>(std::size_t(ranks_), "here"),
        .timeout_seconds = kTimeout,
        .grace_seconds = 0.3,
        .exchange = [this](auto bytes) { return exchange(bytes); },
        .state = [this] { return state(); },
        .say = [this](const auto& failure, const auto& states) { say(failure, states); },
        .claim = [this] { return fs::create_directory(folder_ / "claimed"); }};
    Lifeline lifeline(std::move(setup));
    std::ofstream(folder_ / format("up-%d", rank_)) << lifeline.problem();
    try {
      while (!fs::exists(folder_ / "over")) {
        lifeline.check();
        if (fs::exists(folder_ / format("fail-%d", rank_))) fail(lifeline);
        while (fs::exists(folder_ / format("hang-%d", rank_))) nap();
        nap();
      }
      lifeline.goodbye();
    } catch (const JobEnds& ends) {
      ::_exit(ends.code());
    }
    ::_exit(0);
  }

 private:
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) {
    const auto name = [&](int rank) { return folder_ / format("round-%d-%d", round_, rank); };
    const fs::path draft = folder_ / format("draft-%d", rank_);
    std::ofstream(draft, std::ios::binary)
        .write(reinterpret_cast<const char*>(mine.data()), std::streamsize(mine.size()));
    fs::rename(draft, name(rank_));
    std::vector<std::vector<std::byte>> all;
    for (int r = 0; r < ranks_; ++r) {
      if (!appears(name(r), 20)) ::_exit(99);
      const std::string text = read(name(r));
      const auto bytes = std::as_bytes(std::span(text));
      all.emplace_back(bytes.begin(), bytes.end());
    }
    ++round_;
    return all;
  }

  RankState state() const {
    return {.doing = Doing::working,
            .waits_for = {},
            .since_ns = now_ns(),
            .text = format("F%d", 10 + rank_)};
  }

  void say(const Failure& failure, const std::vector<RankState>& states) {
    const char* kinds[] = {"died", "silent", "said"};
    std::string line = format("rank %d says:", rank_);
    for (const Rank rank : failure.ranks) {
      line += format(" %d in %s,", rank.value, states[std::size_t(rank.value)].text.c_str());
    }
    line += format(" %s, code %d", kinds[int(failure.what)], failure.code);
    if (!failure.text.empty()) line += ": " + failure.text;
    if (failure.culprit) line += format(" (%d)", failure.culprit->value);
    std::ofstream(folder_ / "said", std::ios::app) << line + "\n";
  }

  void fail(Lifeline& lifeline) {
    const auto code = lifeline.report(4, "a loss of nan", Rank{1});
    ::_exit(code.value_or(98));
  }

  fs::path folder_;
  int rank_;
  int ranks_;
  int round_ = 0;
};

class LifelineTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() /
              format("hetpipe-lifeline-%d-%s", ::getpid(),
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    while (::wait(nullptr) > 0) {
    }
    fs::remove_all(folder_);
  }

  void start(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      const pid_t child = ::fork();
      if (child == 0) ForkedRank(folder_, r, ranks).live();
      children_.push_back(child);
    }
    for (int r = 0; r < ranks; ++r) {
      ASSERT_TRUE(appears(folder_ / format("up-%d", r), 20)) << "rank " << r << " did not start";
    }
    EXPECT_EQ(read(folder_ / "up-0"), "");                      // no problem
    std::this_thread::sleep_for(Seconds(1.2 * kTimeout / 10));  // a beat
  }
  void touch(const std::string& name) { std::ofstream(folder_ / name).put('\n'); }
  void signal(int rank, int number) { ::kill(children_[std::size_t(rank)], number); }

  // Exit code of each rank, -signal where it was killed, -1000 where it stayed; within `seconds`.
  std::vector<int> ends(double seconds) {
    const std::int64_t start = now_ns();
    std::vector<int> codes;
    for (pid_t& child : children_) {
      int status = 0;
      pid_t ended = 0;
      while (ended == 0 && seconds_between(start, now_ns()) < seconds) {
        ended = ::waitpid(child, &status, WNOHANG);
        if (ended == 0) nap();
      }
      codes.push_back(ended == 0          ? -1000
                      : WIFEXITED(status) ? WEXITSTATUS(status)
                                          : -WTERMSIG(status));
      if (ended != 0) child = 0;
    }
    std::erase(children_, 0);
    return codes;
  }
  std::string said() { return read(folder_ / "said"); }

  fs::path folder_;
  std::vector<pid_t> children_;
};

TEST_F(LifelineTest, WhoSaysGoodbyeIsNotMissed) {
  start(4);
  touch("over");
  EXPECT_THAT(ends(5), Each(0));
  EXPECT_EQ(said(), "");
}

TEST_F(LifelineTest, OneRankAloneNeedsNobody) {
  start(1);
  touch("over");
  EXPECT_THAT(ends(5), Each(0));
}

TEST_F(LifelineTest, AKilledRankIsNoticedAtOnce) {
  start(4);
  const std::int64_t start_ns = now_ns();
  signal(2, SIGKILL);
  EXPECT_THAT(ends(5), ElementsAre(3, 3, -SIGKILL, 3));
  EXPECT_LT(seconds_between(start_ns, now_ns()), 1.0);
  EXPECT_EQ(said(), "rank 0 says: 2 in F12, died, code 3\n");
}

TEST_F(LifelineTest, AStoppedRankIsNoticedWithinTheTimeout) {
  start(3);
  signal(1, SIGSTOP);
  EXPECT_TRUE(appears(folder_ / "said", kTimeout));
  EXPECT_THAT(ends(5), Each(3)) << "it wakes up and leaves with the others";
  EXPECT_EQ(said(), "rank 0 says: 1 in F11, silent, code 3: 1.4 s\n");
}

TEST_F(LifelineTest, RankOneSpeaksForAKilledRankZero) {
  start(3);
  signal(0, SIGKILL);
  EXPECT_THAT(ends(5), ElementsAre(-SIGKILL, 3, 3));
  EXPECT_THAT(said(), AllOf(HasSubstr("rank 1 says: 0 in "), HasSubstr("died, code 3\n")));
}

TEST_F(LifelineTest, RankOneSpeaksForAStoppedRankZero) {
  start(3);
  signal(0, SIGSTOP);
  EXPECT_TRUE(appears(folder_ / "said", kTimeout));
  EXPECT_THAT(ends(5), Each(3));
  const std::string line = said();
  EXPECT_THAT(line, HasSubstr("rank 1 says: 0 in "));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

TEST_F(LifelineTest, TwoLostAtOnceAreOneFailure) {
  start(4);
  signal(3, SIGKILL);
  signal(2, SIGKILL);
  EXPECT_THAT(ends(5), ElementsAre(3, 3, -SIGKILL, -SIGKILL));
  const std::string line = said();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

TEST_F(LifelineTest, TheNextOneSpeaksWhereRankOneIsLostToo) {
  start(4);
  signal(1, SIGSTOP);  // cannot speak, and is not noticed before
  signal(0, SIGKILL);
  signal(1, SIGKILL);
  EXPECT_THAT(ends(5), ElementsAre(-SIGKILL, -SIGKILL, 3, 3));
  EXPECT_THAT(said(), HasSubstr("rank 2 says: 0 in "));
}

TEST_F(LifelineTest, AFailingRankIsHeardAndAllLeaveWithItsCode) {
  start(4);
  touch("fail-2");
  EXPECT_THAT(ends(5), Each(4));
  EXPECT_EQ(said(), "rank 0 says: 2 in F12, said, code 4: a loss of nan (1)\n");
}

TEST_F(LifelineTest, RankZeroMayFailToo) {
  start(3);
  touch("fail-0");
  EXPECT_THAT(ends(5), Each(4));
  EXPECT_EQ(said(), "rank 0 says: 0 in F10, said, code 4: a loss of nan (1)\n");
}

TEST_F(LifelineTest, ARankThatDoesNotPollLeavesAllTheSame) {
  start(3);
  touch("hang-1");
  std::this_thread::sleep_for(Seconds(0.05));
  signal(2, SIGKILL);
  EXPECT_THAT(ends(5), ElementsAre(3, 3, -SIGKILL));
}

// As when a scheduler suspends a whole job.
TEST_F(LifelineTest, WhoSleptToldNobodyAndBlamesNobody) {
  start(3);
  for (int r = 0; r < 3; ++r) signal(r, SIGSTOP);
  std::this_thread::sleep_for(Seconds(1.5 * kTimeout));
  for (int r = 0; r < 3; ++r) signal(r, SIGCONT);
  std::this_thread::sleep_for(Seconds(1.2 * kTimeout));
  EXPECT_EQ(said(), "");
  touch("over");
  EXPECT_THAT(ends(5), Each(0));
}

}  // namespace lifeline_test
}  // namespace hetpipe
