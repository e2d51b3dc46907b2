// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/warm_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "runtime/transport/threads.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace warm_ranks_test {

const std::map<Rank, std::string> kNames{{Rank{0}, "rank 0 (one card)"},
                                         {Rank{2}, "rank 2 (another)"}};

TEST(WarmRanks, WaitForEachOtherAndForNobodyElse) {
  const auto transports = make_threads_transports(3);
  RankService first(*transports[0], test::patience(20)), second(*transports[2], test::patience(20));
  WarmRanks here(kNames, first), there(kNames, second);
  EXPECT_TRUE(here.has(Rank{2}));
  EXPECT_FALSE(here.has(Rank{1}));
  std::thread other([&] { there.wait_for_all(); });
  here.wait_for_all();
  other.join();
}

TEST(WarmRanks, TheDeadlineNamesTheRankThatIsWaitedFor) {
  const auto transports = make_threads_transports(3);
  RankService first(*transports[0], 0.05), second(*transports[2], 5);
  WarmRanks here(kNames, first), there(kNames, second);
  try {
    here.wait_for_all();
    FAIL() << "rank 2 never came";
  } catch (const WaitFailed& error) {
    EXPECT_EQ(error.culprit(), Rank{2});
    EXPECT_THAT(error.what(), testing::HasSubstr("rank 2 (another) to load its kernels"));
  }
}

}  // namespace warm_ranks_test
}  // namespace hetpipe
