// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// A filter names tests, and nobody notices when they are renamed: what it was to run is not run, or
// what it was to leave out is. So each of its patterns has to select a test of the program.
namespace hetpipe::test {

// Of GoogleTest's filter (patterns, and behind a '-' those to leave out, each list separated by
// colons) those that select none of `names` (Suite.Test).
std::vector<std::string> idle_patterns(const std::string& filter,
                                       const std::vector<std::string>& names);

// After InitGoogleTest: whether the filter that was given, on the command line or as GTEST_FILTER,
// holds no such pattern; said on standard error otherwise. Not asked where HETPIPE_TEST_FILTER is
// "any": a filter for several programs at once.
bool filter_selects();

}  // namespace hetpipe::test
