// SPDX-License-Identifier: Apache-2.0
#include "launch/data/command.h"

#include <array>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "launch/launched.h"

namespace hetpipe {
namespace {

constexpr std::array kActions{
    Subcommand{"import", "turns CIFAR or folders of images into a file for --data", data_import},
};

std::string overview() {
  std::string text = "usage: hetpipe data <action> [options]\n\nPrepares data sets.\n\n";
  for (const Subcommand& action : kActions) {
    text += format("  %-6s  %s\n", action.name, action.help);
  }
  return text + "\nhetpipe data <action> --help lists its options.\n";
}

}  // namespace

int data_command(const Invocation& how) {
  const std::vector<std::string>& words = how.arguments;
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    if (speaks_for_all()) std::fputs(overview().c_str(), words.empty() ? stderr : stdout);
    return static_cast<int>(words.empty() ? ExitCode::user : ExitCode::done);
  }
  std::vector<std::string> known;
  for (const Subcommand& action : kActions) {
    if (words[0] == action.name) return action.run({how.program, {words.begin() + 1, words.end()}});
    known.emplace_back(action.name);
  }
  throw UserError("", unknown("action", words[0], known) + ". See hetpipe data --help.");
}

}  // namespace hetpipe
