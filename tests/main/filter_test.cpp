// SPDX-License-Identifier: Apache-2.0
#include "tests/main/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace hetpipe::test {
namespace filter_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Filter, EachPatternHasToSelectATest) {
  const std::vector<std::string> names{"A.One", "A.Two", "All/B.Three/cpu"};
  for (const char* all_select : {"*", "A.One", "A.*:*B*", "-A.T?o", "A.*-A.One:*cpu", ""}) {
    EXPECT_THAT(idle_patterns(all_select, names), IsEmpty()) << all_select;
  }
  EXPECT_THAT(idle_patterns("A.One:A.Onne", names), ElementsAre("A.Onne"));
  EXPECT_THAT(idle_patterns("A.*-*/gpu:B.*:A.Two", names), ElementsAre("*/gpu", "B.*"));
  EXPECT_THAT(idle_patterns("-A.[OT]*", names), ElementsAre("A.[OT]*"));
}

// What this program says and its exit code, under a filter as ctest gives it.
struct Ended {
  int code = 0;
  std::string said;
};
Ended run_myself(const std::string& environment) {
  Ended run;
  FILE* out =
      ::popen((environment + " /proc/" + std::to_string(::getpid()) + "/exe 2>&1").c_str(), "r");
  std::array<char, 4096> piece{};
  while (const std::size_t count = std::fread(piece.data(), 1, piece.size(), out)) {
    run.said.append(piece.data(), count);
  }
  run.code = WEXITSTATUS(::pclose(out));
  return run;
}

TEST(Filter, OfATestThatWasRenamedFails) {
  const Ended before = run_myself("GTEST_FILTER=Filter.EachPattern*");
  EXPECT_EQ(before.code, 0) << before.said;
  EXPECT_THAT(before.said, HasSubstr("1 test from 1 test suite ran"));
  const Ended after = run_myself("GTEST_FILTER=-Filter.EveryPattern*:Filter.OfATest*");
  EXPECT_EQ(after.code, 1) << after.said;
  EXPECT_THAT(after.said, HasSubstr("the filter's pattern 'Filter.EveryPattern*' selects no test"));
  EXPECT_THAT(after.said, testing::Not(HasSubstr("'Filter.OfATest*'")));
  EXPECT_EQ(run_myself("HETPIPE_TEST_FILTER=any GTEST_FILTER=Filter.EveryPattern*").code, 0);
}

}  // namespace filter_test
}  // namespace hetpipe::test
