// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "launch/command/subcommand.h"
#include "launch/launcher/launched.h"

namespace hetpipe {
namespace {

std::string overview(const ActionGroup& group) {
  std::string text =
      format("usage: hetpipe %s <action> %s\n\n%s\n\n", group.name, group.usage, group.about);
  for (const Subcommand& action : group.actions) {
    text += format("  %-6s  %s\n", action.name, action.help);
  }
  return text + format("\nhetpipe %s <action> --help lists its options.\n", group.name);
}

}  // namespace

int run_action(const ActionGroup& group, const Invocation& how) {
  if (how.reader != nullptr) {
    how.reader->actions(group);
    return static_cast<int>(ExitCode::done);
  }
  const std::vector<std::string>& words = how.arguments;
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    if (speaks_for_all()) std::fputs(overview(group).c_str(), words.empty() ? stderr : stdout);
    return static_cast<int>(words.empty() ? ExitCode::user : ExitCode::done);
  }
  std::vector<std::string> known;
  for (const Subcommand& action : group.actions) {
    if (words[0] == action.name) return action.run({how.program, {words.begin() + 1, words.end()}});
    known.emplace_back(action.name);
  }
  throw UserError(
      "", unknown("action", words[0], known) + format(". See hetpipe %s --help.", group.name));
}

}  // namespace hetpipe
