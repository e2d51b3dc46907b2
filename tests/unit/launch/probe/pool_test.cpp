// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "invented.h"

namespace hetpipe {
namespace pool_test {

using test::rank_on;
using test::rtx_3090;
using test::unknown_card;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// "n0: rtx-3090 rtx-3090; n1: marvel-x1", as a cluster file would say it.
std::string drawn(const Pool& pool) {
  std::string text;
  for (const PoolNode& node : pool.nodes) {
    text += (text.empty() ? "" : "; ") + node.name + ":";
    for (const PoolDevice& device : node.devices) {
      text += " " + pool.kinds[static_cast<std::size_t>(device.kind)].name;
    }
  }
  return text;
}

// Which device each rank has for its own: "n0:0", "n0:0+" where it shares it, "-".
std::vector<std::string> places(const Pool& pool) {
  std::vector<std::string> texts;
  for (const PoolPlace& place : pool.places) {
    texts.push_back(place.device < 0
                        ? "-"
                        : pool.nodes[static_cast<std::size_t>(place.node)].name + ":" +
                              std::to_string(place.device) + (place.shared ? "+" : ""));
  }
  return texts;
}

TEST(Pool, RaggedNodesWithARankForEachCard) {
  // Each rank sees one card, as under srun --gpus-per-task=1.
  const Pool pool = decide_pool({rank_on("n0", {rtx_3090("a")}), rank_on("n0", {rtx_3090("b")}),
                                 rank_on("n0", {rtx_3090("c")}), rank_on("n1", {rtx_3090("d")})},
                                ProbeFor::whatever_there_is);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090 rtx-3090 rtx-3090; n1: rtx-3090");
  EXPECT_THAT(places(pool), ElementsAre("n0:0", "n0:1", "n0:2", "n1:0"));
  EXPECT_THAT(pool.notes, IsEmpty());
  // Ranks of a class are alike: one link inside, one between.
  EXPECT_THAT(decide_link_tests(pool), ElementsAre(LinkTest{0, 1}, LinkTest{0, 3}));
}

TEST(Pool, RanksThatSeeAllCardsTakeOneEach) {
  const std::vector<SeenCard> all{rtx_3090("a", 0), unknown_card("b", 1), rtx_3090("c", 2)};
  const Pool pool =
      decide_pool({rank_on("n0", all), rank_on("n0", all), rank_on("n0", all)}, ProbeFor::cards);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090 marvel-x1 rtx-3090");
  EXPECT_THAT(places(pool), ElementsAre("n0:0", "n0:1", "n0:2"));
  EXPECT_THAT(pool.nodes[0].devices[1].ranks, ElementsAre(0, 1, 2));
  EXPECT_EQ(pool.kinds[1].measured_by, 1);
  EXPECT_EQ(pool.kinds[1].gpu, 1);
  // Two kinds in a node: within the first, and between them.
  EXPECT_THAT(decide_link_tests(pool), ElementsAre(LinkTest{0, 2}, LinkTest{0, 1}));
}

TEST(Pool, OneRankForEachNode) {
  const Pool pool = decide_pool({rank_on("n0", {rtx_3090("a", 0), unknown_card("b", 1)}),
                                 rank_on("n1", {rtx_3090("c", 0), unknown_card("d", 1)})},
                                ProbeFor::cards);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090 marvel-x1; n1: rtx-3090 marvel-x1");
  // Nobody has the other card for its own, and a rank that sees it measures it.
  EXPECT_EQ(pool.kinds[1].measured_by, 0);
  EXPECT_EQ(pool.kinds[1].gpu, 1);
  EXPECT_THAT(pool.notes, ElementsAre(HasSubstr("no rank has n0:1, n1:1 to itself")));
  EXPECT_THAT(decide_link_tests(pool), ElementsAre(LinkTest{0, 1}, LinkTest{0, 0}));
}

TEST(Pool, TwoRanksOnOneCardAreOneDevice) {
  const Pool pool = decide_pool({rank_on("n0", {rtx_3090("a")}), rank_on("n0", {rtx_3090("a")})},
                                ProbeFor::cards);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090");
  EXPECT_THAT(places(pool), ElementsAre("n0:0", "n0:0+"));
  EXPECT_THAT(pool.notes, ElementsAre(AllOf(HasSubstr("rank 1"), HasSubstr("shares n0:0"))));
  EXPECT_THAT(decide_link_tests(pool), ElementsAre(LinkTest{0, 1}));
}

TEST(Pool, WhoeverLooksFirstSawWhatIsFree) {
  SeenCard early = rtx_3090("a"), late = early, other = rtx_3090("b");
  late.gpu.free_memory -= test::kGiB;
  other.gpu.free_memory = 8 * test::kGiB;
  const Pool pool = decide_pool({rank_on("n0", {late}), rank_on("n0", {early})}, ProbeFor::cards);
  EXPECT_EQ(pool.kinds[0].memory, static_cast<std::int64_t>(early.gpu.free_memory));
  // The least of a kind's cards counts, and what others have taken is reported.
  const Pool two = decide_pool({rank_on("n0", {early}), rank_on("n0", {other})}, ProbeFor::cards);
  EXPECT_EQ(two.kinds[0].memory, static_cast<std::int64_t>(8 * test::kGiB));
  EXPECT_THAT(two.notes, ElementsAre(HasSubstr("n0:1 has 8.6 GB free of 25.8 GB")));
}

TEST(Pool, ANodeWithoutCardsServes) {
  const Pool pool =
      decide_pool({rank_on("n0", {rtx_3090("a")}), rank_on("n1")}, ProbeFor::whatever_there_is);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090; n1:");
  EXPECT_THAT(places(pool), ElementsAre("n0:0", "-"));
  EXPECT_THAT(pool.notes, ElementsAre(AllOf(HasSubstr("n1 (rank 1) has no card"),
                                            HasSubstr("the driver lists no GPU"))));
  EXPECT_THAT(decide_link_tests(pool), ElementsAre(LinkTest{0, 1}, LinkTest{0, 0}));
}

TEST(Pool, VariantsOfACardAreTwoKinds) {
  const Pool pool =
      decide_pool({rank_on("n0", {test::card("NVIDIA GeForce RTX 3060", "a", 12)}),
                   rank_on("n0", {test::card("GeForce RTX 3060", "b", 12)}),  // by an older driver
                   rank_on("n1", {test::card("NVIDIA GeForce RTX 3060", "c", 8)})},
                  ProbeFor::cards);
  EXPECT_EQ(drawn(pool), "n0: rtx-3060 rtx-3060; n1: rtx-3060-8gb");
  EXPECT_EQ(pool.kinds[1].catalogue, "rtx-3060");
}

TEST(Pool, OneMachineUnderTwoNamesHasItsCardsOnce) {
  const Pool pool = decide_pool({rank_on("n0", {rtx_3090("a")}), rank_on("n1", {rtx_3090("a")})},
                                ProbeFor::cards);
  EXPECT_EQ(drawn(pool), "n0: rtx-3090; n1:");
  EXPECT_THAT(pool.notes, Contains(HasSubstr("n1 sees a of n0 too")));
}

TEST(Pool, WithoutCardsEachRankIsADevice) {
  std::vector<ProbeFacts> facts{rank_on("n0"), rank_on("n1"), rank_on("n0"), rank_on("n2")};
  facts[1].rank.boot = facts[0].rank.boot;  // two names of one machine
  facts[3].processor = "Other CPU 9000";
  const Pool pool = decide_pool(facts, ProbeFor::whatever_there_is);
  EXPECT_FALSE(pool.cards);
  EXPECT_EQ(drawn(pool), "n0: cpu cpu; n1: cpu; n2: cpu-other-cpu-9000");
  EXPECT_THAT(places(pool), ElementsAre("n0:0", "n1:0", "n0:1", "n2:0"));
  EXPECT_EQ(pool.kinds[0].memory, 64'000'000'000 / 3);
  EXPECT_EQ(pool.kinds[1].memory, 64'000'000'000);
  EXPECT_THAT(pool.notes, ElementsAre(AllOf(HasSubstr("no GPU"), HasSubstr("n0, n1, n2: the"))));
  // Processors that were asked for need no excuse, whatever cards there are.
  EXPECT_THAT(decide_pool({rank_on("n0", {rtx_3090("a")})}, ProbeFor::processors).notes, IsEmpty());
}

TEST(Pool, CardsThatWereAskedForHaveToBeThere) {
  try {
    decide_pool({rank_on("n0"), rank_on("n1")}, ProbeFor::cards);
    FAIL() << "no card was enough";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("n0, n1: the driver lists no GPU for this process"));
  }
}

}  // namespace pool_test
}  // namespace hetpipe
