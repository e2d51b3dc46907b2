// SPDX-License-Identifier: Apache-2.0
#include "tests/main/filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace hetpipe::test {
namespace {

// As GoogleTest does: '*' is any text, '?' any character.
bool matches(const char* pattern, const char* name) {
  if (*pattern == '\0') return *name == '\0';
  if (*pattern == '*') return matches(pattern + 1, name) || (*name && matches(pattern, name + 1));
  return *name && (*pattern == '?' || *pattern == *name) && matches(pattern + 1, name + 1);
}

std::vector<std::string> registered_tests() {
  std::vector<std::string> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      names.push_back(std::string(suite.name()) + "." + suite.GetTestInfo(t)->name());
    }
  }
  return names;
}

}  // namespace

std::vector<std::string> idle_patterns(const std::string& filter,
                                       const std::vector<std::string>& names) {
  std::vector<std::string> idle;
  for (std::size_t at = 0; at < filter.size();) {
    const std::size_t end = std::min(filter.find_first_of(":-", at), filter.size());
    const std::string pattern = filter.substr(at, end - at);
    at = end + 1;
    if (pattern.empty()) continue;
    const bool selects = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return matches(pattern.c_str(), name.c_str());
    });
    if (!selects) idle.push_back(pattern);
  }
  return idle;
}

bool filter_selects() {
  const char* asked = std::getenv("HETPIPE_TEST_FILTER");
  if (asked != nullptr && std::string(asked) == "any") return true;
  const auto idle = idle_patterns(testing::GTEST_FLAG(filter), registered_tests());
  for (const std::string& pattern : idle) {
    std::fprintf(stderr,
                 "the filter's pattern '%s' selects no test here (was one renamed?); "
                 "--gtest_list_tests lists them\n",
                 pattern.c_str());
  }
  return idle.empty();
}

}  // namespace hetpipe::test
