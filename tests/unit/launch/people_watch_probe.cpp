// SPDX-License-Identifier: Apache-2.0
// Tells whether people watch, in a file per rank: for people_watch.sh.
#include <cstdio>
#include <string>

#include "launch/command/terminal.h"
#include "launch/launcher/launched.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto here = hetpipe::launched();
  const std::string path = std::string(argv[1]) + "." + std::to_string(here ? here->rank : 0);
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return 3;
  std::fputs(hetpipe::people_watch() ? "yes\n" : "no\n", file);
  return std::fclose(file) == 0 ? 0 : 3;
}
