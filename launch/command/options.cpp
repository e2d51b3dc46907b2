// SPDX-License-Identifier: Apache-2.0
#include "launch/command/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"
#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return toml_real(value);
  } else {
    return std::to_string(value);
  }
}

std::string plain(double value) { return format("%.15g", value); }

// "Give a whole number of at least 1."
std::string remedy(const char* noun, const Limits& limits) {
  std::string text = std::string("Give ") + noun;
  if (std::isfinite(limits.least)) {
    text += (limits.open ? " above " : " of at least ") + plain(limits.least);
  }
  if (std::isfinite(limits.most)) {
    text += (std::isfinite(limits.least) ? " and at most " : " of at most ") + plain(limits.most);
  }
  return text + ".";
}

template <class T>
std::optional<std::string> complaint(const std::string& word, const Limits& limits, T& value) {
  constexpr bool kWhole = std::is_integral_v<T>;
  const char* noun = kWhole ? "a whole number" : "a number";
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const auto bad = [&](const std::string& why) {
    return "'" + word + "' (" + why + "). " + remedy(noun, limits);
  };
  if (error == std::errc::result_out_of_range) return bad("too large for this option");
  if (error != std::errc() || end != word.data() + word.size()) {
    return bad(std::string("not ") + noun);
  }
  const double real = static_cast<double>(value);
  if (!std::isfinite(real)) return bad("not a finite number");
  if (limits.open && real <= limits.least) return bad("must be above " + plain(limits.least));
  if (real < limits.least) return bad("must be at least " + plain(limits.least));
  if (real > limits.most) return bad("must be at most " + plain(limits.most));
  return std::nullopt;
}

template <class T>
Option number_option(std::string name, std::string value, Slot<T> slot, Limits limits,
                     std::string help) {
  Option option;
  option.name = std::move(name);
  option.value = std::move(value);
  option.help = std::move(help);
  option.set = [slot, limits](const std::string& word) {
    T parsed{};
    std::optional<std::string> problem = complaint(word, limits, parsed);
    if (!problem) slot.set(parsed);
    return problem;
  };
  option.text = [slot]() -> std::optional<std::string> {
    const std::optional<T> present = slot.get();
    if (!present) return std::nullopt;
    return std::is_floating_point_v<T> ? plain(static_cast<double>(*present))
                                       : number_text(*present);
  };
  option.toml = [slot]() -> std::optional<std::string> {
    const std::optional<T> present = slot.get();
    return present ? std::optional(number_text(*present)) : std::nullopt;
  };
  return option;
}

// Several, separated by commas.
template <class T>
Option numbers_option(std::string name, std::string value, Slot<std::vector<T>> slot, Limits limits,
                      std::string help) {
  Option option;
  option.name = std::move(name);
  option.value = std::move(value);
  option.help = std::move(help);
  option.set = [slot, limits](const std::string& word) -> std::optional<std::string> {
    std::vector<T> numbers;
    for (const std::string& part : split(word, ',')) {
      if (auto problem = complaint(part, limits, numbers.emplace_back())) return problem;
    }
    slot.set(std::move(numbers));
    return std::nullopt;
  };
  const auto listed = [slot](const char* separator,
                             const auto& text) -> std::optional<std::string> {
    const auto present = slot.get();
    if (!present || present->empty()) return std::nullopt;
    std::vector<std::string> words;
    for (const T number : *present) words.push_back(text(number));
    return join(words, separator);
  };
  option.text = [listed] {
    return listed(",", [](T number) {
      return std::is_floating_point_v<T> ? plain(static_cast<double>(number)) : number_text(number);
    });
  };
  option.toml = [listed]() -> std::optional<std::string> {
    const auto text = listed(", ", number_text<T>);
    return text ? std::optional("[" + *text + "]") : std::nullopt;
  };
  return option;
}

Option string_option(std::string name, std::string value, const Slot<std::string>& slot,
                     std::string help) {
  Option option;
  option.name = std::move(name);
  option.value = std::move(value);
  option.help = std::move(help);
  option.text = slot.get;
  option.toml = [slot]() -> std::optional<std::string> {
    const std::optional<std::string> present = slot.get();
    return present ? std::optional(toml_string(*present)) : std::nullopt;
  };
  return option;
}

}  // namespace

Option text_option(std::string name, std::string value, Slot<std::string> slot, std::string help) {
  Option option = string_option(std::move(name), std::move(value), slot, std::move(help));
  option.set = [slot](const std::string& word) -> std::optional<std::string> {
    if (word.empty()) return "'' (is empty). Give a value, or leave the option out.";
    slot.set(word);
    return std::nullopt;
  };
  return option;
}

Option choice_option(std::string name, Slot<std::string> slot, std::vector<std::string> choices,
                     std::string help) {
  Option option = string_option(std::move(name), join(choices, "|"), slot, std::move(help));
  option.set = [slot, choices](const std::string& word) -> std::optional<std::string> {
    if (std::find(choices.begin(), choices.end(), word) == choices.end()) {
      return unknown("value", word, choices) + ". Give one of " + join(choices, ", ") + ".";
    }
    slot.set(word);
    return std::nullopt;
  };
  return option;
}

Option integer_option(std::string name, std::string value, Slot<int> slot, Limits limits,
                      std::string help) {
  return number_option(std::move(name), std::move(value), slot, limits, std::move(help));
}

Option integer_option(std::string name, std::string value, Slot<std::int64_t> slot, Limits limits,
                      std::string help) {
  return number_option(std::move(name), std::move(value), slot, limits, std::move(help));
}

Option real_option(std::string name, std::string value, Slot<double> slot, Limits limits,
                   std::string help) {
  return number_option(std::move(name), std::move(value), slot, limits, std::move(help));
}

Option on_off_option(std::string name, Slot<bool> slot, std::string help) {
  Option option;
  option.name = std::move(name);
  option.value = "on|off";
  option.help = std::move(help);
  option.set = [slot](const std::string& word) -> std::optional<std::string> {
    const bool on = word == "on" || word == "true";
    if (!on && word != "off" && word != "false") {
      return "'" + word + "' (neither on nor off). Give on or off.";
    }
    slot.set(on);
    return std::nullopt;
  };
  const auto as = [slot](const char* yes, const char* no) {
    return [slot, yes, no]() -> std::optional<std::string> {
      const std::optional<bool> present = slot.get();
      if (!present) return std::nullopt;
      return *present ? yes : no;
    };
  };
  option.text = as("on", "off");
  option.toml = as("true", "false");
  return option;
}

Option list_option(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                   std::string help) {
  Option option;
  option.name = std::move(name);
  option.value = std::move(value);
  option.help = std::move(help);
  option.set = [slot](const std::string& word) -> std::optional<std::string> {
    std::vector<std::string> parts = split(word, ',');
    if (std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.empty(); })) {
      return "'" + word + "' (one of its parts is empty). Separate the parts by single commas.";
    }
    slot.set(std::move(parts));
    return std::nullopt;
  };
  option.text = [slot]() -> std::optional<std::string> {
    const auto present = slot.get();
    if (!present || present->empty()) return std::nullopt;
    return join(*present, ",");
  };
  option.toml = [slot]() -> std::optional<std::string> {
    const auto present = slot.get();
    if (!present || present->empty()) return std::nullopt;
    return toml_strings(*present);
  };
  return option;
}

Option integers_option(std::string name, std::string value, Slot<std::vector<int>> slot,
                       Limits limits, std::string help) {
  return numbers_option(std::move(name), std::move(value), std::move(slot), limits,
                        std::move(help));
}

Option reals_option(std::string name, std::string value, Slot<std::vector<double>> slot,
                    Limits limits, std::string help) {
  return numbers_option(std::move(name), std::move(value), std::move(slot), limits,
                        std::move(help));
}

Option flag_option(std::string name, bool& variable, std::string help) {
  Option option = on_off_option(std::move(name), variable, std::move(help));
  option.value.clear();
  option.implicit = "on";
  return option;
}

Option required(Option option) {
  option.required = true;
  return option;
}

Option command_line_only(Option option) {
  option.in_file = false;
  return option;
}

Option unset_means(std::string what, Option option) {
  option.unset = std::move(what);
  return option;
}

Option offering(std::vector<std::string> known, Option option) {
  option.known = std::move(known);
  return option;
}

Option elsewhere(std::vector<std::string> names, Option option) {
  option.elsewhere = std::move(names);
  return option;
}

Option alone_means(std::string value, Option option) {
  option.implicit = std::move(value);
  return option;
}

Option argument(Option option) {
  option.positional = true;
  return required(command_line_only(std::move(option)));
}

Option repeated_option(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                       std::string help) {
  Option option = list_option(std::move(name), std::move(value), slot, std::move(help));
  option.set = [slot](const std::string& word) -> std::optional<std::string> {
    if (word.empty()) return "'' (is empty). Give a value.";
    std::vector<std::string> words = slot.get().value_or(std::vector<std::string>{});
    words.push_back(word);
    slot.set(std::move(words));
    return std::nullopt;
  };
  return command_line_only(std::move(option));
}

Option arguments(std::string name, std::string value, Slot<std::vector<std::string>> slot,
                 std::string help) {
  Option option = repeated_option(std::move(name), std::move(value), slot, std::move(help));
  option.repeats = true;
  return argument(std::move(option));
}

}  // namespace hetpipe
