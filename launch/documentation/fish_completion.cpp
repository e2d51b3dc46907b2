// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "launch/documentation/commands.h"
#include "launch/documentation/completion.h"

namespace hetpipe {
namespace {

constexpr const char* kFishStart = R"(# fish completion for hetpipe, made from its tables of options
function __hetpipe_at # WORD...: the command line starts with these words behind hetpipe
    set -q argv[1]; or return 0
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test "$words[2..$last]" = "$argv"
end
complete -c hetpipe -f
)";

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_line(const std::string& condition, const std::string& what) {
  return "complete -c hetpipe -n " + quoted("__hetpipe_at" + condition) + ' ' + what + '\n';
}

// The words behind hetpipe, each with a space before it.
std::string behind(const DocumentedCommand& command) {
  return command.name.substr(std::string("hetpipe").size());
}

std::string option_line(const std::string& condition, const Option& option) {
  const OfferedValues offered = offered_values(option);
  std::string what = "-l " + option.name;
  if (!option.value.empty()) {
    if (offered.files || offered.folders) what += " -F";
    if (option.implicit.empty()) what += " -r";
    if (!offered.words.empty()) what += " -a " + quoted(join(offered.words, " "));
  }
  return fish_line(condition, what + " -d " + quoted(first_sentence(option.help)));
}

}  // namespace

std::string fish_completion() {
  std::string text = kFishStart;
  const auto word = [](const Subcommand& command) {
    return std::string("-a ") + command.name + " -d " + quoted(command.help);
  };
  const auto only = [](const std::string& condition) {
    return condition + "; and test (count (commandline -opc)) -eq " +
           std::to_string(split(condition, ' ').size());
  };
  for (const Subcommand& subcommand : subcommands()) text += fish_line(only(""), word(subcommand));
  for (const char* own : {"help", "version"}) text += fish_line(only(""), std::string("-l ") + own);
  for_each_command([&](const DocumentedCommand& command) {
    const std::string condition = behind(command);
    if (command.group != nullptr) {
      for (const Subcommand& action : command.group->actions) {
        text += fish_line(only(condition), word(action));
      }
      text += fish_line(only(condition), "-l help");
      return;
    }
    if (!command.table->positionals().empty()) text += fish_line(condition, "-F");
    for (const OptionGroup& group : command.table->groups()) {
      for (const Option& option : group.options) {
        if (!option.positional) text += option_line(condition, option);
      }
    }
  });
  return text;
}

}  // namespace hetpipe
