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
#include "runtime/transport/lifeline_socket.h"
#include "tests/main/patience.h"

// Ranks are processes that this test forks: they can be killed and stopped like real ones. In place
// of MPI they exchange bytes through files.
namespace hetpipe {
namespace lifeline_test {

namespace fs = std::filesystem;
using test::comes_true;
using test::patience;
using testing::Each;
using testing::ElementsAre;
using testing::MatchesRegex;
using Seconds = std::chrono::duration<double>;

// s. Where a rank is to be missed by its silence, others must not be: they are heard several times
// a second.
constexpr double kSilentTimeout = 4;

std::string read(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void nap() { std::this_thread::sleep_for(Seconds(0.005)); }

bool appears(const fs::path& path) {
  return comes_true([&] { return fs::exists(path); });
}

// One rank's life: polls until the job ends, or until the file "over" says that all is done.
class ForkedRank {
 public:
  ForkedRank(fs::path folder, int rank, int ranks, double timeout)
      : folder_(std::move(folder)), rank_(rank), ranks_(ranks), timeout_(timeout) {}

  [[noreturn]] void live() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    LifelineSetup setup{
        .rank = Rank{rank_},
        .machines = std::vector<std::string>(std::size_t(ranks_), "here"),
        .timeout_seconds = timeout_,
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
        if (rank_ == 0 && has_heard_all(lifeline)) touch("heard");
        if (fs::exists(folder_ / format("fail-%d", rank_))) fail(lifeline);
        if (fs::exists(folder_ / format("hang-%d", rank_))) hang();
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
    // Strangers go first, where a test wants some.
    if (rank_ > 0 && !comes_true([&] { return !fs::exists(folder_ / "strangers"); })) ::_exit(97);
    for (int r = 0; r < ranks_; ++r) {
      if (!appears(name(r))) ::_exit(99);
      const std::string text = read(name(r));
      const auto bytes = std::as_bytes(std::span(text));
      all.emplace_back(bytes.begin(), bytes.end());
    }
    ++round_;
    return all;
  }

  static bool has_heard_all(const Lifeline& lifeline) {
    const std::vector<RankState> states = lifeline.states();
    return std::none_of(states.begin(), states.end(),
                        [](const RankState& state) { return state.text.empty(); });
  }
  [[noreturn]] void hang() {
    touch(format("hangs-%d", rank_));
    for (;;) nap();
  }
  void touch(const std::string& name) const { std::ofstream(folder_ / name).put('\n'); }

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
  double timeout_;
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

  void fork_ranks(int ranks, double timeout) {
    for (int r = 0; r < ranks; ++r) {
      const pid_t child = ::fork();
      if (child == 0) ForkedRank(folder_, r, ranks, timeout).live();
      children_.push_back(child);
    }
  }

  // With states of all at rank 0. Nobody is missed for a silence shorter than 0.7 `timeout`.
  void start(int ranks, double timeout = patience(5)) {
    fork_ranks(ranks, timeout);
    expect_up(ranks);
  }
  void expect_up(int ranks) {
    for (int r = 0; r < ranks; ++r) {
      ASSERT_TRUE(appears(folder_ / format("up-%d", r))) << "rank " << r << " did not start";
    }
    ASSERT_TRUE(appears(folder_ / "heard")) << "rank 0 has not heard of all";
    EXPECT_EQ(read(folder_ / "up-0"), "");  // no problem
  }
  void touch(const std::string& name) { std::ofstream(folder_ / name).put('\n'); }
  void signal(int rank, int number) { ::kill(children_[std::size_t(rank)], number); }

  // Exit code of each rank, -signal where it was killed, -1000 where it stayed.
  std::vector<int> ends() {
    std::vector<int> codes;
    for (pid_t& child : children_) {
      int status = 0;
      const bool ended =
          comes_true([&] { return ::waitpid(child, &status, WNOHANG) != 0; }, kSilentTimeout + 5);
      codes.push_back(!ended ? -1000 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
      if (ended) child = 0;
    }
    std::erase(children_, 0);
    return codes;
  }
  std::string said() { return read(folder_ / "said"); }

  fs::path folder_;
  std::vector<pid_t> children_;
};

// A port scanner, before any rank has come: more silent connections than ranks, and than places.
TEST_F(LifelineTest, StrangersKeepNoRankOut) {
  constexpr int kRanks = 3;
  touch("strangers");
  fork_ranks(kRanks, patience(5));
  ASSERT_TRUE(appears(folder_ / "round-0-0"));
  const std::string introduction = read(folder_ / "round-0-0");
  const std::size_t port = introduction.find("\"port\":");
  ASSERT_NE(port, std::string::npos) << introduction;
  std::vector<Socket> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect_to({"127.0.0.1"}, std::atoi(&introduction[port + 7]), patience(2)));
  }
  fs::remove(folder_ / "strangers");
  expect_up(kRanks);
  touch("over");
  EXPECT_THAT(ends(), Each(0));
  EXPECT_EQ(said(), "");
}

TEST_F(LifelineTest, WhoSaysGoodbyeIsNotMissed) {
  start(4);
  touch("over");
  EXPECT_THAT(ends(), Each(0));
  EXPECT_EQ(said(), "");
}

TEST_F(LifelineTest, OneRankAloneNeedsNobody) {
  start(1);
  touch("over");
  EXPECT_THAT(ends(), Each(0));
}

// By the end of its connection, not by its silence.
TEST_F(LifelineTest, AKilledRankIsNoticedAtOnce) {
  start(4);
  signal(2, SIGKILL);
  EXPECT_THAT(ends(), ElementsAre(3, 3, -SIGKILL, 3));
  EXPECT_EQ(said(), "rank 0 says: 2 in F12, died, code 3\n");
}

TEST_F(LifelineTest, AStoppedRankIsNoticedByItsSilence) {
  start(3, kSilentTimeout);
  signal(1, SIGSTOP);
  EXPECT_THAT(ends(), Each(3)) << "it wakes up and leaves with the others";
  EXPECT_EQ(said(), "rank 0 says: 1 in F11, silent, code 3: 2.8 s\n");
}

// Usually the first of them, which the others give a moment's lead.
TEST_F(LifelineTest, OneOfTheOthersSpeaksForAKilledRankZero) {
  start(3);
  signal(0, SIGKILL);
  EXPECT_THAT(ends(), ElementsAre(-SIGKILL, 3, 3));
  EXPECT_THAT(said(), MatchesRegex("rank [12] says: 0 in [^\n]*, died, code 3\n"));
}

TEST_F(LifelineTest, OneOfTheOthersSpeaksForAStoppedRankZero) {
  start(3, kSilentTimeout);
  signal(0, SIGSTOP);
  EXPECT_THAT(ends(), Each(3));
  EXPECT_THAT(said(), MatchesRegex("rank [12] says: 0 in [^\n]*, silent, code 3: 2.8 s\n"));
}

TEST_F(LifelineTest, TwoLostAtOnceAreOneFailure) {
  start(4);
  signal(3, SIGKILL);
  signal(2, SIGKILL);
  EXPECT_THAT(ends(), ElementsAre(3, 3, -SIGKILL, -SIGKILL));
  const std::string line = said();
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
}

TEST_F(LifelineTest, TheNextOneSpeaksWhereRankOneIsLostToo) {
  start(4);
  signal(1, SIGSTOP);  // cannot speak, and is not noticed before
  signal(0, SIGKILL);
  signal(1, SIGKILL);
  EXPECT_THAT(ends(), ElementsAre(-SIGKILL, -SIGKILL, 3, 3));
  EXPECT_THAT(said(), MatchesRegex("rank [23] says: [^\n]*, died, code 3\n"));
}

TEST_F(LifelineTest, AFailingRankIsHeardAndAllLeaveWithItsCode) {
  start(4);
  touch("fail-2");
  EXPECT_THAT(ends(), Each(4));
  EXPECT_EQ(said(), "rank 0 says: 2 in F12, said, code 4: a loss of nan (1)\n");
}

TEST_F(LifelineTest, RankZeroMayFailToo) {
  start(3);
  touch("fail-0");
  EXPECT_THAT(ends(), Each(4));
  EXPECT_EQ(said(), "rank 0 says: 0 in F10, said, code 4: a loss of nan (1)\n");
}

TEST_F(LifelineTest, ARankThatDoesNotPollLeavesAllTheSame) {
  start(3);
  touch("hang-1");
  ASSERT_TRUE(appears(folder_ / "hangs-1"));
  signal(2, SIGKILL);
  EXPECT_THAT(ends(), ElementsAre(3, 3, -SIGKILL));
}

// As when a scheduler suspends a whole job.
TEST_F(LifelineTest, WhoSleptBlamesNobody) {
  start(3, kSilentTimeout);
  for (int r = 0; r < 3; ++r) signal(r, SIGSTOP);
  std::this_thread::sleep_for(Seconds(kSilentTimeout));  // longer than anybody is waited for
  for (int r = 0; r < 3; ++r) signal(r, SIGCONT);
  std::this_thread::sleep_for(Seconds(kSilentTimeout));
  EXPECT_EQ(said(), "");
  touch("over");
  EXPECT_THAT(ends(), Each(0));
}

}  // namespace lifeline_test
}  // namespace hetpipe
