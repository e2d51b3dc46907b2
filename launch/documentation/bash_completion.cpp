// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "launch/documentation/commands.h"
#include "launch/documentation/completion.h"

namespace hetpipe {
namespace {

// Words that a command line may hold do not have brackets, so these say what else there is.
constexpr const char* kBashFunction = R"(
_hetpipe() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command=hetpipe word offered list= words=()
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then command+=" ${COMP_WORDS[1]}"; fi
  if ((COMP_CWORD > 2)) && [[ -n ${_hetpipe_words["$command ${COMP_WORDS[2]}"]-} ]]; then
    command+=" ${COMP_WORDS[2]}"
  fi
  for word in "${COMP_WORDS[@]:2:COMP_CWORD - 2}"; do
    if [[ $word == -- ]]; then command="hetpipe train"; fi # whose options stand behind it
  done
  if [[ $current == = ]]; then # a word of its own in --option=value
    current=
  elif [[ $previous == = ]]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  elif [[ $current == -* ]]; then
    previous=
  fi

  offered=${_hetpipe_values["$command $previous"]-}
  if [[ -z $offered ]]; then
    offered=${_hetpipe_values["$command"]-}
    if [[ -z $offered || $current == -* ]]; then offered=${_hetpipe_words["$command"]-}; fi
  fi
  for word in $offered; do
    case $word in
      '<files>')
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        compopt -o filenames 2> /dev/null
        ;;
      '<folders>')
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        compopt -o filenames 2> /dev/null
        ;;
      '<list>') list=${current%"${current##*,}"} ;;
      '<any>') ;;
      *) words+=("$list$word") ;;
    esac
  done
  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "${words[*]}" -- "$current")
}
complete -F _hetpipe hetpipe
)";

std::string row(const std::string& key, const std::string& words) {
  return "  [\"" + key + "\"]=\"" + words + "\"\n";
}

std::string value_words(const Option& option) {
  const OfferedValues offered = offered_values(option);
  std::vector<std::string> words;
  if (offered.list) words.push_back("<list>");
  if (offered.files) words.push_back("<files>");
  if (offered.folders) words.push_back("<folders>");
  words.insert(words.end(), offered.words.begin(), offered.words.end());
  return words.empty() ? "<any>" : join(words, " ");
}

}  // namespace

std::string bash_completion() {
  std::string words;   // what may stand where no value is expected
  std::string values;  // by command and option; by command alone: of its words without a name
  std::vector<std::string> known;
  for (const Subcommand& subcommand : subcommands()) known.emplace_back(subcommand.name);
  words += row("hetpipe", join(known, " ") + " --help --version");
  for_each_command([&](const DocumentedCommand& command) {
    std::vector<std::string> names;
    if (command.group != nullptr) {
      for (const Subcommand& action : command.group->actions) names.emplace_back(action.name);
      names.emplace_back("--help");
    } else {
      for (const std::string& name : command.table->names()) names.push_back("--" + name);
      if (!command.table->positionals().empty()) values += row(command.name, "<files>");
      for (const OptionGroup& group : command.table->groups()) {
        for (const Option& option : group.options) {
          if (option.positional || option.value.empty()) continue;
          values += row(command.name + " --" + option.name, value_words(option));
        }
      }
    }
    words += row(command.name, join(names, " "));
  });
  return "# bash completion for hetpipe, made from its tables of options\n"
         "declare -gA _hetpipe_words=(\n" +
         words + ")\ndeclare -gA _hetpipe_values=(\n" + values + ")\n" + kBashFunction;
}

}  // namespace hetpipe
