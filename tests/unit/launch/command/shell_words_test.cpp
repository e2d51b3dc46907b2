// SPDX-License-Identifier: Apache-2.0
#include "launch/command/shell_words.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <memory>

namespace hetpipe {
namespace shell_words_test {

TEST(ShellWords, QuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(shell_words({"hetpipe", "--plan=a/b.toml", "n0,n1:2"}),
            "hetpipe --plan=a/b.toml n0,n1:2");
  EXPECT_EQ(shell_words({"my plan.toml", "", "$HOME"}), "'my plan.toml' '' '$HOME'");
}

TEST(ShellWords, AShellReadsThemBack) {
  const std::vector<std::string> words{"it's", "a b", "*", "x\\y", "\"q\"", "~", "a;b", "!"};
  const std::string command = "printf '%s\\n' " + shell_words(words);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             ::pclose);
  ASSERT_NE(pipe, nullptr);
  std::string read;
  std::array<char, 256> part{};
  while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr) read += part.data();
  std::string expected;
  for (const std::string& word : words) expected += word + '\n';
  EXPECT_EQ(read, expected);
}

}  // namespace shell_words_test
}  // namespace hetpipe
