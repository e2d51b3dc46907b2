// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/rank_state.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/time.h"

namespace hetpipe {
namespace rank_state_test {

constexpr double kPatience = 5;  // s
constexpr std::int64_t kNow = 1'000'000'000'000;

RankState state(Doing doing, double age, std::optional<int> waits_for = {}) {
  return {.doing = doing,
          .waits_for = waits_for ? std::optional(Rank{*waits_for}) : std::nullopt,
          .since_ns = kNow - to_ns(age),
          .text = {}};
}
RankState works(double age) { return state(Doing::working, age); }
RankState waits(double age, std::optional<int> waits_for = {}) {
  return state(Doing::waiting, age, waits_for);
}

// "goes on", "rank 3", "nobody": how a wait of rank 0 for this one ends after its patience.
std::string verdict(const std::vector<RankState>& states, std::optional<int> waits_for) {
  const WaitVerdict given = judge_wait(
      states, Rank{0}, waits_for ? std::optional(Rank{*waits_for}) : std::nullopt, kPatience, kNow);
  if (given.go_on) return "goes on";
  return given.culprit ? "rank " + std::to_string(given.culprit->value) : "nobody";
}

TEST(JudgeWait, APeerThatMovesIsWaitedFor) {
  EXPECT_EQ(verdict({waits(5.1, 1), works(0.1)}, 1), "goes on");
  EXPECT_EQ(verdict({waits(5.1, 1), works(4.9)}, 1), "goes on");
  EXPECT_EQ(verdict({waits(5.1, 1), works(5.1)}, 1), "rank 1");
}

TEST(JudgeWait, ALongPhaseHasTenTimesAsLong) {
  EXPECT_EQ(verdict({waits(5.1, 1), state(Doing::long_phase, 49)}, 1), "goes on");
  EXPECT_EQ(verdict({waits(5.1, 1), state(Doing::long_phase, 51)}, 1), "rank 1");
}

// 0 waits for 1, which waits for 2, which hangs in its action.
TEST(JudgeWait, TheEndOfTheChainIsToBlame) {
  EXPECT_EQ(verdict({waits(5.1, 1), waits(5.2, 2), works(5.3)}, 1), "rank 2");
  EXPECT_EQ(verdict({waits(5.1, 1), waits(5.2, 2), works(1)}, 1), "goes on");
  EXPECT_EQ(verdict({waits(5.1, 1), waits(0.2, 2), works(9)}, 1), "goes on");  // it has just begun
}

TEST(JudgeWait, RanksThatWaitForEachOtherDoNotGoOn) {
  EXPECT_EQ(verdict({waits(5.1, 1), waits(5.2, 0)}, 1), "rank 1");
  EXPECT_EQ(verdict({waits(5.1, 1), waits(5.2, 2), waits(5.3, 0)}, 1), "rank 2");
  EXPECT_EQ(verdict({waits(5.1, 1), waits(5.2, 2), waits(5.3, 1)}, 1), "rank 2");
}

// A server (1) waits for pushes in general: whoever moves may be about to push.
TEST(JudgeWait, WithoutANameAnyRankThatMovesWillDo) {
  EXPECT_EQ(verdict({waits(5.1, 1), waits(9), works(0.1)}, 1), "goes on");
  EXPECT_EQ(verdict({waits(5.1, 1), waits(9), works(6), works(7)}, 1), "rank 3");
  EXPECT_EQ(verdict({waits(5.1), waits(9), works(6)}, std::nullopt), "rank 2");
  EXPECT_EQ(verdict({waits(5.1), waits(9)}, std::nullopt), "nobody");
  EXPECT_EQ(verdict({waits(5.1), works(0.1)}, std::nullopt), "goes on");
}

TEST(JudgeWait, OfARankWithoutLifelineNothingIsKnown) {
  EXPECT_EQ(verdict({waits(5.1, 1), state(Doing::unknown, 0)}, 1), "rank 1");
  EXPECT_EQ(verdict({waits(5.1, 7), works(0)}, 7), "nobody");  // no such rank
}

TEST(RankState, TravelsWithItsAge) {
  const RankState sent{.doing = Doing::waiting,
                       .waits_for = Rank{3},
                       .since_ns = kNow - 500,
                       .text = "the gate of wave 7"};
  const std::int64_t there = 77'000;  // another machine's clock
  const std::vector<std::byte> bytes = to_bytes(sent, kNow);
  const RankState received = state_from_bytes(bytes, there);
  EXPECT_EQ(received.doing, Doing::waiting);
  EXPECT_EQ(received.waits_for, Rank{3});
  EXPECT_EQ(there - received.since_ns, 500);
  EXPECT_EQ(received.text, "the gate of wave 7");
  EXPECT_THROW(state_from_bytes(std::span(bytes).first(8), there), SystemError);
}

}  // namespace rank_state_test
}  // namespace hetpipe
