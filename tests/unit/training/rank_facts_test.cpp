// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rank_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace rank_facts_test {

using testing::HasSubstr;

// Ranks of hosts a, b, b.
std::vector<RankFacts> two_hosts() {
  std::vector<RankFacts> facts;
  for (const char* host : {"a", "b", "b"}) {
    RankFacts rank;
    rank.host = host;
    rank.build = 5;
    rank.configuration = "epochs = 1\n";
    facts.push_back(std::move(rank));
  }
  return facts;
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(RankFacts, AContainerOfTheSameMachineIsAnotherPlace) {
  const RankFacts outside = facts_of_this_rank();
  EXPECT_EQ(facts_of_this_rank().place, outside.place);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET) != 0) ::_exit(77);
    const RankFacts inside = facts_of_this_rank();
    ::_exit(inside.boot == outside.boot && inside.place != outside.place ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network namespace is available";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(CheckAlike, OneBuildAndOneSetOfOptions) {
  std::vector<RankFacts> facts = two_hosts();
  EXPECT_EQ(refusal([&] { check_alike(facts); }), "");
  facts[1].configuration = facts[2].configuration = "epochs = 2\nkeep = 3\n";
  EXPECT_EQ(
      refusal([&] { check_alike(facts); }),
      "ranks 1 and 2 on b: started with --epochs 2 (rank 0 with --epochs 1), --keep 3 (rank 0 "
      "with no --keep). Start all ranks of a run with the same options.");
  facts[2].build = 6;
  EXPECT_THAT(refusal([&] { check_alike(facts); }), HasSubstr("rank 2 on b: another build"));
}

TEST(CheckAlike, DataMayLieElsewhere) {
  std::vector<RankFacts> facts = two_hosts();
  facts[1].configuration += "data = \"/other\"\n";
  EXPECT_EQ(refusal([&] { check_alike(facts); }), "");
}

TEST(RankFacts, TravelAsTheyAre) { test::expect_all_travels(test::filled<RankFacts>()); }

}  // namespace rank_facts_test
}  // namespace hetpipe
