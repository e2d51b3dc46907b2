// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/command/subcommand.h"

// Options as one table: command line, configuration file, help, printed configuration and checks
// all follow from its rows. A row is bound to the variable it fills; the variable's value before
// reading is the default, so that a default is in one place too.
namespace hetpipe {

// The variable behind a row: one with a default, or an optional one that may stay unset.
template <class T>
struct Slot {
  std::function<void(T)> set;
  std::function<std::optional<T>()> get;

  Slot(T& variable)  // NOLINT: rows are written with the variable itself
      : set([&variable](T value) { variable = std::move(value); }),
        get([&variable]() -> std::optional<T> { return variable; }) {}
  Slot(std::optional<T>& variable)  // NOLINT
      : set([&variable](T value) { variable = std::move(value); }),
        get([&variable] { return variable; }) {}
};

struct Option {
  std::string name;      // "in-flight": --in-flight on the command line, in-flight = 4 in a file
  std::string value;     // what help writes for the value: "N"; empty for a flag
  std::string help;      // one sentence; the default is appended automatically
  std::string unset;     // what an unset value means: "the plan's"; empty: nothing to say
  std::string implicit;  // its value when none is given; empty: it needs one
  bool in_file = true;   // allowed in a configuration file
  bool required = false;
  std::vector<std::string> elsewhere{};  // what other programs call it: suggested for these
  std::vector<std::string> known{};  // values a shell may offer beside those spelt out in `value`
  bool positional = false;           // a word without a name in front: `checkpoint info FILE`
  bool repeats = false;              // of a positional: takes all remaining words
  std::function<std::optional<std::string>(const std::string&)> set;  // the problem, or nothing
  std::function<std::optional<std::string>()> text;                   // as typed; nothing: unset
  std::function<std::optional<std::string>()> toml;                   // as written in a file
};

// Limits of a number, both allowed unless `open`, which leaves out the lower one.
struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open = false;
};
inline constexpr Limits kPositive{0, std::numeric_limits<double>::infinity(), true};
inline constexpr Limits kNotNegative{0};

// Rows by type of value.
Option text_option(std::string name, std::string value, Slot<std::string> slot, std::string help);
Option choice_option(std::string name, Slot<std::string> slot, std::vector<std::string> choices,
                     std::string help);
Option integer_option(std::string name, std::string value, Slot<int> slot, Limits limits,
                      std::string help);
Option integer_option(std::string name, std::string value, Slot<std::int64_t> slot, Limits limits,
                      std::string help);
Option real_option(std::string name, std::string value, Slot<double> slot, Limits limits,
                   std::string help);
Option on_off_option(std::string name, Slot<bool> slot, std::string help);  // a boolean in a file
Option list_option(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                   std::string help);  // separated by commas
// May be repeated on the command line, and is allowed only there; a value may contain commas.
Option repeated_option(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                       std::string help);
Option integers_option(std::string name, std::string value, Slot<std::vector<int>> slot,
                       Limits limits, std::string help);
Option reals_option(std::string name, std::string value, Slot<std::vector<double>> slot,
                    Limits limits, std::string help);
Option flag_option(std::string name, bool& variable, std::string help);

// Modifiers of a row that few need.
Option required(Option option);
Option command_line_only(Option option);
Option unset_means(std::string what, Option option);
Option offering(std::vector<std::string> known, Option option);
Option alone_means(std::string value, Option option);
Option elsewhere(std::vector<std::string> names, Option option);

// Rows of words without a name, in the order of the command line; before the options or between.
Option argument(Option option);  // required, on the command line only; named after its value
Option arguments(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                 std::string help);  // one or more; the last such row

// Values that hold where nothing above gives one (the command line, --config, a file nearer to
// them): those of a file, but for the options named.
struct OptionsBelow {
  std::string file;
  std::vector<std::string> without;
  // Not empty: the file is another command's, and nothing but these is taken from it.
  std::vector<std::string> only = {};
};
// An option that was given with another value than the file below has; both as typed, empty: unset.
struct OptionChange {
  std::string file;
  std::string name;
  std::string was;
  std::string is;
};

struct OptionGroup {
  std::string title;
  std::vector<Option> options;
};

// The help of a row, with its default.
std::string described(const Option& option);

class OptionTable {
 public:
  // --help, --config and --print-config are added to every table.
  OptionTable(std::string command, std::string summary, std::vector<OptionGroup> groups);
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  enum class Asked { run, help, configuration };

  // Reads the configuration file, then the command line, which takes precedence. Collects problems
  // of both in `problems`, so that the caller can add its own and throw them together. Rows
  // that are required are not checked when help or configuration is asked for. `below` is called
  // once the variables hold what was given, and may complete that; of its files, a nearer one comes
  // before those that it takes precedence over.
  using Below = std::function<std::vector<OptionsBelow>()>;
  Asked read(std::span<const std::string> arguments, Problems& problems, const Below& below = {});

  // Against the files below, file by file in the order of the rows.
  const std::vector<OptionChange>& changes() const { return changes_; }

  std::string help() const;
  std::string configuration() const;  // TOML that --config reads back
  std::vector<std::string> names() const;

  const std::string& command() const { return command_; }  // "checkpoint diff"
  const std::string& summary() const { return summary_; }
  const std::vector<OptionGroup>& groups() const { return groups_; }
  std::vector<const Option*> positionals() const;

 private:
  const Option* find(const std::string& name) const;
  const Option* called_elsewhere(const std::string& name) const;
  std::string usage() const;  // "hetpipe checkpoint diff A B"
  // An option's value as typed, and where it stands; returns the problem, or nothing.
  using Take = std::function<std::optional<std::string>(const Option&, const std::string&)>;
  void read_file(const std::string& file, Problems& problems, const Take& take,
                 const std::vector<std::string>& only = {});
  void read_below(const OptionsBelow& below, std::map<std::string, std::string>& given,
                  Problems& problems);
  void read_words(std::span<const std::string> arguments, Problems& problems,
                  std::vector<std::pair<std::string, std::string>>& values) const;

  std::string command_;
  std::string summary_;
  bool help_asked_ = false;
  bool configuration_asked_ = false;
  std::optional<std::string> config_;
  std::vector<OptionGroup> groups_;
  std::vector<OptionChange> changes_;
};

// What every subcommand does first: reads its options, answers --help and --print-config itself (on
// standard output, from the first rank alone) and throws UserError with every problem, `check`'s
// included. False: answered, or shown to a reader; the command is done.
bool read_options(OptionTable& table, const Invocation& how,
                  const std::function<void(Problems&)>& check = {},
                  const OptionTable::Below& below = {});

}  // namespace hetpipe
