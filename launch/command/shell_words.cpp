// SPDX-License-Identifier: Apache-2.0
#include "launch/command/shell_words.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace hetpipe {
namespace {

bool needs_no_quotes(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && std::all_of(word.begin(), word.end(), needs_no_quotes)) {
      line += word;
      continue;
    }
    line += '\'';
    for (char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

SplitWords split_words(const std::vector<std::string>& words) {
  const auto at = std::find(words.begin(), words.end(), "--");
  if (at == words.end()) return {words, {}};
  return {{words.begin(), at}, {at + 1, words.end()}};
}

}  // namespace hetpipe
