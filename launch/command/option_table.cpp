// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "launch/command/options.h"
#include "launch/command/terminal.h"
#include "launch/launcher/launched.h"
#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

constexpr std::size_t kHelpWidth = 100;

bool is_option_word(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

// A file's value as it would be typed on the command line; nothing for tables and the like.
std::optional<std::string> as_typed(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::string:
      return value.text;
    case TomlValue::Kind::integer:
      return std::to_string(value.integer);
    case TomlValue::Kind::real:
      // A TOML file may hold nan and inf; whoever takes the word refuses them.
      return std::isfinite(value.real) ? toml_real(value.real) : std::to_string(value.real);
    case TomlValue::Kind::boolean:
      return value.boolean ? "true" : "false";
    case TomlValue::Kind::array: {
      std::vector<std::string> parts;
      for (const TomlValue& item : value.items) {
        const auto part = item.kind == TomlValue::Kind::array ? std::nullopt : as_typed(item);
        if (!part) return std::nullopt;
        parts.push_back(*part);
      }
      return join(parts, ",");
    }
    default:
      return std::nullopt;
  }
}

std::string placeholder(const Option& option) {
  return option.value + (option.repeats ? "..." : "");
}

std::string signature(const Option& option) {
  if (option.positional) return "  " + placeholder(option);
  std::string text = "  --" + option.name;
  if (!option.value.empty()) {
    text += option.implicit.empty() ? " " + option.value : " [" + option.value + "]";
  }
  return text;
}

}  // namespace

std::string described(const Option& option) {
  std::string text = option.help;
  const auto value = option.text();
  if (option.positional) {
    // Usage says that it is needed.
  } else if (option.required) {
    text += " (required)";
  } else if (value && !option.value.empty()) {
    text += " (default: " + *value + ")";
  } else if (!option.unset.empty()) {
    text += " (default: " + option.unset + ")";
  }
  return text;
}

OptionTable::OptionTable(std::string command, std::string summary, std::vector<OptionGroup> groups)
    : command_(std::move(command)), summary_(std::move(summary)), groups_(std::move(groups)) {
  OptionGroup common{"Common options", {}};
  common.options.push_back(command_line_only(
      text_option("config", "FILE", config_,
                  "Reads options from a TOML file: format = 1, then for example in-flight = 4. "
                  "The command line takes precedence.")));
  common.options.push_back(command_line_only(
      flag_option("print-config", configuration_asked_,
                  "Prints the options in effect as a file for --config, and exits.")));
  common.options.push_back(
      command_line_only(flag_option("help", help_asked_, "Prints this help and exits.")));
  groups_.push_back(std::move(common));
}

const Option* OptionTable::find(const std::string& name) const {
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      if (option.name == name) return &option;
    }
  }
  return nullptr;
}

const Option* OptionTable::called_elsewhere(const std::string& name) const {
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      const auto& names = option.elsewhere;
      if (std::find(names.begin(), names.end(), name) != names.end()) return &option;
    }
  }
  return nullptr;
}

std::vector<std::string> OptionTable::names() const {
  std::vector<std::string> names;
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      if (!option.positional) names.push_back(option.name);
    }
  }
  return names;
}

std::vector<const Option*> OptionTable::positionals() const {
  std::vector<const Option*> rows;
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      if (option.positional) rows.push_back(&option);
    }
  }
  return rows;
}

std::string OptionTable::usage() const {
  std::string text = "hetpipe " + command_;
  for (const Option* row : positionals()) {
    text += row->required ? " " + placeholder(*row) : " [" + placeholder(*row) + "]";
  }
  return text;
}

void OptionTable::read_file(const std::string& file, Problems& problems, const Take& take,
                            const std::vector<std::string>& only) {
  const TomlValue document = parse_toml(hetpipe::read_file(file), file);
  const auto where = [&](int line) { return file + ":" + std::to_string(line); };
  std::vector<std::string> allowed{"format"};
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      if (option.in_file) allowed.push_back(option.name);
    }
  }
  bool format_seen = false;
  for (const auto& [key, value] : document.entries) {
    if (key == "format") {
      format_seen = true;
      if (value.kind != TomlValue::Kind::integer || value.integer != 1) {
        problems.add(where(value.line), "format (only format = 1 is known). Write format = 1.");
      }
      continue;
    }
    if (!only.empty() && std::find(only.begin(), only.end(), key) == only.end()) continue;
    const Option* option = find(key);
    if (option == nullptr) {
      problems.add(where(value.line), unknown("key", key, allowed) + ". See hetpipe " + command_ +
                                          " --help for the allowed keys.");
    } else if (!option->in_file) {
      problems.add(where(value.line),
                   key + " (allowed on the command line only). Remove the line.");
    } else if (const auto word = as_typed(value); !word) {
      problems.add(where(value.line),
                   key + " (a table or a date cannot be the value of an option). Write " + key +
                       " = " + option->value + ".");
    } else if (const auto complaint = take(*option, *word)) {
      problems.add(where(value.line), key + " = " + *complaint);
    }
  }
  if (!format_seen) {
    problems.add(where(1), "format is missing (every file states its format). Add format = 1.");
  }
}

// Splits the words into (option, value) with Boost.Program_options, which stops at its first error;
// what would make it stop is therefore reported and taken out before.
void OptionTable::read_words(std::span<const std::string> arguments, Problems& problems,
                             std::vector<std::pair<std::string, std::string>>& values) const {
  namespace po = boost::program_options;
  const std::string see = ". See hetpipe " + command_ + " --help.";
  const std::vector<const Option*> rows = positionals();
  std::size_t row = 0;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i] == "-h" ? "--help" : arguments[i];
    if (!is_option_word(word)) {
      if (row < rows.size() && !word.starts_with('-')) {
        values.emplace_back(rows[row]->name, word);
        if (!rows[row]->repeats) ++row;
      } else {
        problems.add("", "unexpected argument '" + word + "' (" +
                             (rows.empty() ? "this command takes options only"
                                           : "the command is " + usage()) +
                             ")" + see);
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    const Option* option = find(word.substr(2, equals == word.npos ? word.npos : equals - 2));
    if (option != nullptr && option->positional) option = nullptr;
    const bool value_follows =
        i + 1 < arguments.size() && !is_option_word(arguments[i + 1]) && arguments[i + 1] != "-h";
    if (option == nullptr) {
      const Option* const meant = called_elsewhere(word.substr(2, equals - 2));
      if (meant != nullptr) {
        problems.add("", "unknown option '" + word.substr(0, equals) + "' (here it is --" +
                             meant->name + ")" + see);
        if (equals == word.npos && value_follows) ++i;
        continue;
      }
      problems.add("", unknown("option", word.substr(0, equals),
                               [&] {
                                 std::vector<std::string> known = names();
                                 for (std::string& name : known) name.insert(0, "--");
                                 return known;
                               }()) +
                           see);
      if (equals == word.npos && value_follows) ++i;
    } else if (equals + 1 == word.size()) {
      problems.add(word.substr(0, equals), "needs a value (nothing follows its '='). Write --" +
                                               option->name + " " + option->value + ".");
    } else if (equals != word.npos) {
      words.push_back(word);
    } else if (option->value.empty() || (!option->implicit.empty() && !value_follows)) {
      words.push_back(word + "=" + option->implicit);
    } else if (value_follows && arguments[i + 1].empty()) {
      ++i;
      problems.add(word, "needs a value (an empty one was given). Write " + word + " " +
                             option->value + ".");
    } else if (value_follows) {
      words.push_back(word + "=" + arguments[++i]);
    } else {
      problems.add(word,
                   "needs a value (none was given). Write " + word + " " + option->value + ".");
    }
  }
  po::options_description description;
  for (const std::string& name : names()) {
    description.add_options()(name.c_str(), po::value<std::string>());
  }
  const auto style =
      po::command_line_style::allow_long | po::command_line_style::long_allow_adjacent;
  for (const auto& parsed :
       po::command_line_parser(words).options(description).style(style).run().options) {
    values.emplace_back(parsed.string_key, parsed.value.empty() ? "" : parsed.value.front());
  }
}

// `given`: the values that stand above the file, as typed, which are joined by the file's.
void OptionTable::read_below(const OptionsBelow& below, std::map<std::string, std::string>& given,
                             Problems& problems) {
  std::map<std::string, std::string> was;
  std::map<std::string, std::string> words;
  const auto is_out = [&](const std::string& name) {
    const auto among = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    return among(below.without) || (!below.only.empty() && !among(below.only));
  };
  const auto take = [&](const Option& option, const std::string& word) {
    if (is_out(option.name)) return std::optional<std::string>();
    auto complaint = option.set(word);
    if (!complaint) was[option.name] = option.text().value_or("");
    if (!complaint) words[option.name] = word;
    return complaint;
  };
  read_file(below.file, problems, take, below.only);
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      const auto above = given.find(option.name);
      if (above == given.end() || !option.in_file || is_out(option.name)) continue;
      option.set(above->second);
      const std::string is = option.text().value_or("");
      if (is != was[option.name]) {
        changes_.push_back({below.file, option.name, was[option.name], is});
      }
    }
  }
  given.merge(words);
}

OptionTable::Asked OptionTable::read(std::span<const std::string> arguments, Problems& problems,
                                     const Below& below) {
  std::map<std::string, std::string> given;
  std::vector<std::pair<std::string, std::string>> values;
  read_words(arguments, problems, values);
  for (const auto& [name, value] : values) {
    if (name == "help") return Asked::help;
    if (name == "config") config_ = value;
  }
  const auto reading = [&](const auto& read) {
    try {
      read();
    } catch (const UserError& error) {
      for (const Problem& problem : error.problems()) problems.add(problem.where, problem.text);
    }
  };
  if (config_) {
    reading([&] {
      read_file(*config_, problems, [&](const Option& option, const std::string& word) {
        given[option.name] = word;
        return option.set(word);
      });
    });
  }
  for (const auto& [name, value] : values) {
    const Option& option = *find(name);
    given[name] = value;
    if (const auto complaint = option.set(value)) {
      problems.add(option.positional ? option.value : "--" + name, *complaint);
    }
  }
  for (const OptionsBelow& layer : below ? below() : std::vector<OptionsBelow>()) {
    reading([&] { read_below(layer, given, problems); });
  }
  if (configuration_asked_) return Asked::configuration;
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      const bool tried = std::any_of(values.begin(), values.end(),
                                     [&](const auto& value) { return value.first == option.name; });
      if (option.required && option.positional && !tried) {
        problems.add(placeholder(option),
                     "is missing (hetpipe " + command_ + " requires it). Give " + usage() + ".");
      } else if (option.required && option.text().value_or("").empty() && !tried) {
        problems.add("--" + option.name, "is missing (hetpipe " + command_ +
                                             " requires it). Give --" + option.name + " " +
                                             option.value + ".");
      }
    }
  }
  return Asked::run;
}

std::string OptionTable::help() const {
  std::size_t column = 0;
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      const std::size_t width = signature(option).size();
      if (width <= 32) column = std::max(column, width);
    }
  }
  column += 2;
  std::string text =
      "usage: " + usage() + " [options]\n\n" + wrapped(summary_, 0, kHelpWidth) + '\n';
  for (const OptionGroup& group : groups_) {
    text += '\n' + group.title + ":\n";
    for (const Option& option : group.options) {
      const std::string left = signature(option);
      text += left;
      text += left.size() + 2 > column ? '\n' + std::string(column, ' ')
                                       : std::string(column - left.size(), ' ');
      text += wrapped(described(option), column, kHelpWidth - column) + '\n';
    }
  }
  return text;
}

std::string OptionTable::configuration() const {
  std::string text = "# hetpipe " + command_ + " --config FILE\nformat = 1\n";
  for (const OptionGroup& group : groups_) {
    for (const Option& option : group.options) {
      if (!option.in_file) continue;
      if (const auto value = option.toml()) text += option.name + " = " + *value + '\n';
    }
  }
  return text;
}

bool read_options(OptionTable& table, const Invocation& how,
                  const std::function<void(Problems&)>& check, const OptionTable::Below& below) {
  if (how.reader != nullptr) {
    how.reader->options(table);
    return false;
  }
  Problems problems;
  const OptionTable::Asked asked = table.read(how.arguments, problems, below);
  if (asked == OptionTable::Asked::help) {
    if (speaks_for_all()) std::fputs(table.help().c_str(), stdout);
    return false;
  }
  if (asked == OptionTable::Asked::run && check) check(problems);
  problems.throw_if_any();
  if (asked == OptionTable::Asked::configuration) {
    if (speaks_for_all()) std::fputs(table.configuration().c_str(), stdout);
    return false;
  }
  return true;
}

}  // namespace hetpipe
