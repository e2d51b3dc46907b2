// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "runtime/transport/threads.h"
#include "tests/main/patience.h"
#include "tests/unit/launch/lossy.h"

namespace hetpipe {
namespace doctor_links_test {

using test::Lossy;
using testing::ElementsAre;

TEST(Tournament, FourRanks) {
  EXPECT_THAT(tournament(4), ElementsAre(ElementsAre(RankPair{0, 3}, RankPair{1, 2}),
                                         ElementsAre(RankPair{0, 1}, RankPair{2, 3}),
                                         ElementsAre(RankPair{0, 2}, RankPair{1, 3})));
}

TEST(Tournament, EveryPairOnceAndNobodyTwiceInARound) {
  EXPECT_TRUE(tournament(1).empty());
  for (int ranks = 2; ranks <= 33; ++ranks) {
    std::set<std::pair<int, int>> met;
    for (const std::vector<RankPair>& round : tournament(ranks)) {
      std::set<int> busy;
      for (const RankPair& pair : round) {
        EXPECT_LT(pair.a, pair.b);
        EXPECT_LT(pair.b, ranks);
        EXPECT_TRUE(met.insert({pair.a, pair.b}).second) << ranks;
        EXPECT_TRUE(busy.insert(pair.a).second && busy.insert(pair.b).second) << ranks;
      }
    }
    EXPECT_EQ(static_cast<int>(met.size()), ranks * (ranks - 1) / 2);
    EXPECT_LE(static_cast<int>(tournament(ranks).size()), ranks);
  }
}

// All ranks as threads; what `loser` sends to `other` from so many bytes on is lost. As every rank
// has it, which is the same.
std::vector<PairLink> tested(int ranks, double seconds, int loser = -1, int other = -1,
                             std::size_t from = 0) {
  auto transports = make_threads_transports(ranks);
  if (loser >= 0) {
    auto& transport = transports[static_cast<std::size_t>(loser)];
    transport = std::make_unique<Lossy>(std::move(transport), other, from);
  }
  std::vector<std::unique_ptr<LinkTests>> tests;
  for (auto& transport : transports) {
    tests.push_back(std::make_unique<LinkTests>(*transport, seconds));
  }
  std::vector<std::vector<PairLink>> links(tests.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < tests.size(); ++r) {
    threads.emplace_back([&, r] { links[r] = tests[r]->run(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<PairLink>& of_rank : links) {
    EXPECT_EQ(of_rank.size(), links[0].size());
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      EXPECT_EQ(of_rank[i].pair, links[0][i].pair);
      EXPECT_EQ(of_rank[i].answers(), links[0][i].answers());
    }
  }
  transports.clear();  // before the tests, whose memory they may still have
  return links[0];
}

// Messages of `from` bytes from `loser` to `other` are lost; how long the others take to answer is
// for the machine to say.
std::vector<PairLink> tested_with_loss(int ranks, int loser, int other, std::size_t from) {
  const RankPair lossy{std::min(loser, other), std::max(loser, other)};
  return test::with_longer_deadlines(
      1, [&](double seconds) { return tested(ranks, seconds, loser, other, from); },
      [&](const std::vector<PairLink>& links) {
        return std::all_of(links.begin(), links.end(), [&](const PairLink& link) {
          if (from > 0 && !(link.a_heard_b && link.b_heard_a)) return false;
          return link.pair == lossy ? link.b_heard_a : link.answers();
        });
      });
}

TEST(LinkTests, EveryPairIsMeasured) {
  const std::vector<PairLink> links = tested(5, test::patience(20));
  ASSERT_EQ(links.size(), 10u);
  for (const PairLink& link : links) {
    ASSERT_TRUE(link.answers()) << link.pair.a << " " << link.pair.b;
    EXPECT_GT(link.numbers->there, 1e6);
    EXPECT_GT(link.numbers->back, 1e6);
  }
}

TEST(LinkTests, OneRankHasNone) { EXPECT_TRUE(tested(1, 1).empty()); }

TEST(LinkTests, APairOfWhichOneDoesNotHearTheOther) {
  const std::vector<PairLink> links = tested_with_loss(4, 3, 1, 0);
  EXPECT_EQ(links.size(), 6u);
  for (const PairLink& link : links) {
    const bool lost = link.pair == RankPair{1, 3};
    EXPECT_EQ(link.a_heard_b, !lost);  // 1 does not hear 3
    EXPECT_TRUE(link.b_heard_a);
    EXPECT_EQ(link.numbers.has_value(), !lost) << link.pair.a << " " << link.pair.b;
  }
}

TEST(LinkTests, APairThatLosesLargeMessages) {
  const std::vector<PairLink> links = tested_with_loss(3, 0, 2, 100'000);
  EXPECT_EQ(links.size(), 3u);
  for (const PairLink& link : links) {
    EXPECT_TRUE(link.a_heard_b && link.b_heard_a);
    EXPECT_EQ(link.answers(), link.pair != (RankPair{0, 2})) << link.pair.a << " " << link.pair.b;
  }
}

}  // namespace doctor_links_test
}  // namespace hetpipe
