// SPDX-License-Identifier: Apache-2.0
#include "launch/command/subcommand.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv, argv + argc);
  return hetpipe::run_hetpipe(words);
}
