// SPDX-License-Identifier: Apache-2.0
#include "launch/subcommand.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  return hetpipe::run_hetpipe(words);
}
