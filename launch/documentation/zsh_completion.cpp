// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/documentation/commands.h"
#include "launch/documentation/completion.h"

namespace hetpipe {
namespace {

constexpr const char* kZshStart = R"(#compdef hetpipe
# zsh completion for hetpipe, made from its tables of options
local command=hetpipe
local -a known
while true; do
  known=()
  case $command in
)";
constexpr const char* kZshMiddle = R"(  esac
  (($#known)) || break
  if ((CURRENT == 2)); then
    _describe -t commands command known
    return
  fi
  command+=" $words[2]"
  shift words
  ((CURRENT--))
done
case $command in
)";

std::string with_backslash(const std::string& text, const std::string& before) {
  std::string out;
  for (const char c : text) {
    if (before.find(c) != before.npos) out += '\\';
    out += c;
  }
  return out;
}

std::string offer(const std::string& command, std::span<const Subcommand> words) {
  std::string text = "    '" + command + "')\n      known=(\n";
  for (const Subcommand& word : words) {
    text += "        " + shell_words({std::string(word.name) + ':' + word.help}) + '\n';
  }
  return text + "      )\n      ;;\n";
}

// What _arguments calls an action: what to offer for a value. It wants a backslash before colons.
std::string action(const OfferedValues& offered) {
  const std::string files = offered.files ? "_files" : offered.folders ? "_files -/" : "";
  if (offered.words.empty()) return files;
  const std::string words = '(' + join(offered.words, " ") + ')';
  if (files.empty()) return offered.list ? "_values -s , word " + join(offered.words, " ") : words;
  return "{_alternative \"words\\:word\\:" + words + "\" \"files\\:file\\:" + files + "\"}";
}

std::string specification(const Option& option) {
  const std::string value =
      ':' + with_backslash(option.value, ":\\") + ':' + action(offered_values(option));
  if (option.positional) return (option.repeats ? "*:" : ":") + option.value + ":_files";
  std::string text = "--" + option.name;
  if (!option.value.empty()) text += '=';
  text += '[' + with_backslash(first_sentence(option.help), "[]\\") + ']';
  if (option.value.empty()) return text;
  return text + (option.implicit.empty() ? "" : ":") + value;
}

}  // namespace

std::string zsh_completion() {
  std::string known = offer("hetpipe", subcommands());
  std::string tables;
  for_each_command([&](const DocumentedCommand& command) {
    if (command.group != nullptr) {
      known += offer(command.name, command.group->actions);
      return;
    }
    tables += "  '" + command.name + "')\n    _arguments";
    for (const OptionGroup& group : command.table->groups()) {
      for (const Option& option : group.options) {
        tables += " \\\n      " + shell_words({specification(option)});
      }
    }
    tables += "\n    ;;\n";
  });
  return kZshStart + known + kZshMiddle + tables + "esac\n";
}

}  // namespace hetpipe
