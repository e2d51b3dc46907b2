// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hetpipe {

// Words as a shell reads them back, quoted where it matters.
std::string shell_words(const std::vector<std::string>& words);

// The words before "--" in a command line, and those after it.
struct SplitWords {
  std::vector<std::string> own;
  std::vector<std::string> behind;
};
SplitWords split_words(const std::vector<std::string>& words);

}  // namespace hetpipe
