// SPDX-License-Identifier: Apache-2.0
#include "launch/documentation/manual.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "launch/command/version.h"

namespace hetpipe {
namespace {

constexpr std::size_t kLine = 78;

struct File {
  const char* path;
  const char* what;
};
constexpr File kFiles[] = {
    {"PREFIX/share/hetpipe/cluster-configs/",
     "Cluster files with comments, and profiles of models, to start from. PREFIX is where HetPipe "
     "was installed: /usr for the Debian package."},
    {"PREFIX/share/hetpipe/recipes/", "Whole trainings, for --recipe."},
    {"PREFIX/share/doc/hetpipe/",
     "How to plan, train and compare; docs/files.md has the formats of cluster files, profiles, "
     "plans, checkpoints and traces."},
    {"~/.cache/hetpipe/",
     "Cached measurements, for later runs. HETPIPE_CACHE names another folder, XDG_CACHE_HOME "
     "one in which hetpipe/ is created."},
};

// Characters that mean something else to a page, and what stands for them there.
constexpr std::pair<char, const char*> kEscapes[] = {
    {'\\', "\\e"}, {'~', "\\(ti"}, {'^', "\\(ha"}, {'`', "\\(ga"}};

std::string escaped(const std::string& word) {
  const bool as_typed = word.find("--") != word.npos;
  std::string text;
  for (const char c : word) {
    const auto* const escape = std::find_if(std::begin(kEscapes), std::end(kEscapes),
                                            [c](const auto& row) { return row.first == c; });
    if (escape != std::end(kEscapes)) {
      text += escape->second;
    } else {
      text += c == '-' && as_typed ? "\\-" : std::string(1, c);
    }
  }
  return text;
}

std::string bold(const std::string& text) { return "\\fB" + text + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + text + "\\fR"; }

std::string page_start(const std::string& command, const std::string& help,
                       const std::string& date) {
  const std::string name = manual_name(command);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".TH " + title + " 1 " + date + " \"HetPipe " + version_number() +
         "\" HetPipe\n.SH NAME\n" + name + " \\-\n" + roff_text(help) + ".SH SYNOPSIS\n" +
         bold(command);
}

std::string reference(const std::string& command) { return ".BR " + manual_name(command) + " (1)"; }

// What all pages end with.
std::string page_end(const std::vector<std::string>& related) {
  std::string text = ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : exit_codes()) {
    text += format(".TP\n.B %d\n", static_cast<int>(code)) + roff_text(meaning);
  }
  text += ".SH FILES\n";
  for (const File& file : kFiles) {
    text += ".TP\n.I " + escaped(file.path) + '\n' + roff_text(file.what);
  }
  text += ".SH SEE ALSO\n";
  for (const std::string& command : related) text += reference(command) + ",\n";
  return text + ".BR mpirun (1)\n";
}

std::string option_row(const Option& option) {
  const std::string value = italic(escaped(option.value));
  std::string left = value;
  if (!option.positional) {
    left = bold(escaped("--" + option.name));
    if (!option.value.empty()) left += option.implicit.empty() ? ' ' + value : " [" + value + ']';
  } else if (option.repeats) {
    left += "...";
  }
  return ".TP\n" + left + '\n' + roff_text(described(option));
}

std::string manual_of_table(const DocumentedCommand& command, const std::string& date) {
  std::string text = page_start(command.name, command.help, date);
  for (const Option* word : command.table->positionals()) {
    const std::string name = italic(escaped(word->value)) + (word->repeats ? "..." : "");
    text += word->required ? ' ' + name : " [" + name + ']';
  }
  text += " [" + italic("options") + "]\n.SH DESCRIPTION\n" + roff_text(command.table->summary()) +
          ".SH OPTIONS\n";
  for (const OptionGroup& group : command.table->groups()) {
    text += ".SS " + escaped(group.title) + '\n';
    for (const Option& option : group.options) text += option_row(option);
  }
  return text;
}

std::string manual_of_group(const DocumentedCommand& command, const std::string& date) {
  std::string text = page_start(command.name, command.help, date) + ' ' + italic("action") + ' ' +
                     escaped(command.group->usage) + "\n.SH DESCRIPTION\n" +
                     roff_text(command.group->about) + ".SH OPTIONS\n";
  for (const Subcommand& action : command.group->actions) {
    text += ".TP\n" + reference(command.name + ' ' + action.name) + '\n' + roff_text(action.help);
  }
  return text;
}

}  // namespace

std::string manual_name(const std::string& command) {
  std::string name = command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string roff_text(const std::string& text) {
  std::string out;
  std::string line;
  const auto end_line = [&] {
    if (line.empty()) return;
    if (line.starts_with('.') || line.starts_with('\'')) out += "\\&";
    out += line + '\n';
    line.clear();
  };
  for (const std::string& word : split(text, ' ')) {
    const std::string next = escaped(word);
    if (!line.empty() && line.size() + 1 + next.size() > kLine) end_line();
    if (!line.empty()) line += ' ';
    line += next;
    const bool sentence = word.ends_with('.') || word.ends_with(".)");
    if (sentence && !word.ends_with("..")) end_line();
  }
  end_line();
  return out;
}

std::string manual_of(const DocumentedCommand& command, const std::string& date) {
  std::vector<std::string> related{"hetpipe"};
  for (const Subcommand& other : subcommands()) {
    const std::string name = std::string("hetpipe ") + other.name;
    if (name != command.name) related.push_back(name);
  }
  return (command.table != nullptr ? manual_of_table(command, date)
                                   : manual_of_group(command, date)) +
         page_end(related);
}

std::string manual_of_hetpipe(const std::string& date) {
  std::string about = kAboutHetpipe;
  about.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(about.front())));
  about.pop_back();
  std::string text = page_start("hetpipe", about, date) + ' ' + italic("subcommand") + " [" +
                     italic("options") + "]\n.SH DESCRIPTION\n" + roff_text(kAboutHetpipe);
  std::vector<std::string> related;
  for (const Subcommand& subcommand : subcommands()) {
    related.push_back(std::string("hetpipe ") + subcommand.name);
    text += ".TP\n" + reference(related.back()) + '\n' + roff_text(subcommand.help);
  }
  return text + ".SH OPTIONS\n" + roff_text(kMoreHelp) + page_end(related);
}

}  // namespace hetpipe
