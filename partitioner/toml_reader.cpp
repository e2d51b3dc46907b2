// SPDX-License-Identifier: Apache-2.0
#include "partitioner/toml_file.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "partitioner/rate_text.h"

namespace hetpipe {
namespace {

const char* kind_name(TomlValue::Kind kind) {
  switch (kind) {
    case TomlValue::Kind::string:
      return "a string";
    case TomlValue::Kind::integer:
      return "a whole number";
    case TomlValue::Kind::real:
      return "a number";
    case TomlValue::Kind::boolean:
      return "true or false";
    case TomlValue::Kind::array:
      return "an array";
    case TomlValue::Kind::table:
      return "a table";
    case TomlValue::Kind::other:
      return "a date or time";
  }
  return "";
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return format("%.0f", value);
  return format("%.6g", value);
}

}  // namespace

TomlReader::TomlReader(const TomlValue& table, std::string name, const std::string& file,
                       Problems& problems)
    : table_(table), name_(std::move(name)), file_(file), problems_(problems) {
  ensure(table.kind == TomlValue::Kind::table, "TomlReader reads tables");
}

std::string TomlReader::where(int line) const { return file_ + ":" + std::to_string(line); }

int TomlReader::line_of(const std::string& key) const {
  for (const auto& [name, value] : table_.entries) {
    if (name == key) return value.line;
  }
  return table_.line;
}

bool TomlReader::has(const std::string& key) const {
  return std::any_of(table_.entries.begin(), table_.entries.end(),
                     [&](const auto& entry) { return entry.key == key; });
}

const TomlValue* TomlReader::find(const std::string& key, TomlValue::Kind kind, Need need) {
  known_.push_back(key);
  for (const auto& [name, value] : table_.entries) {
    if (name != key) continue;
    const bool whole_for_real =
        kind == TomlValue::Kind::real && value.kind == TomlValue::Kind::integer;
    if (value.kind == kind || whole_for_real) return &value;
    wrong_type(key, value.line, value.kind, kind_name(kind));
    return nullptr;
  }
  if (need == Need::required) {
    problem(table_.line,
            name_ + ": " + key + " is missing (it is required). Add '" + key + " = ...'.");
  }
  return nullptr;
}

void TomlReader::wrong_type(const std::string& key, int line, TomlValue::Kind is,
                            const char* should) {
  problem(line, name_ + ": " + key + " is " + kind_name(is) + " (it must be " + should +
                    "). Correct it.");
}

bool TomlReader::in_range(const std::string& key, int line, double value, Range range) {
  if (value >= range.least && value <= range.most) return true;
  std::string why =
      "must be between " + number_text(range.least) + " and " + number_text(range.most);
  if (range.least == 0 && value < 0) why = "must not be negative";
  if (range.least > 0 && value <= 0) why = "must be positive";
  problem(line, name_ + ": " + key + " = " + number_text(value) + " (" + why + "). Correct it.");
  return false;
}

std::optional<std::string> TomlReader::string(const std::string& key, Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::string, need);
  if (value == nullptr) return std::nullopt;
  return value->text;
}

std::optional<std::int64_t> TomlReader::integer(const std::string& key, Range range, Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::integer, need);
  if (value == nullptr || !in_range(key, value->line, value->real, range)) return std::nullopt;
  return value->integer;
}

std::optional<double> TomlReader::real(const std::string& key, Range range, Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::real, need);
  if (value == nullptr || !in_range(key, value->line, value->real, range)) return std::nullopt;
  return value->real;
}

std::optional<double> TomlReader::rate(const std::string& key, Range range, Need need) {
  for (const auto& [name, value] : table_.entries) {
    if (name != key || value.kind != TomlValue::Kind::string) continue;
    known_.push_back(key);
    const auto rate = try_parse_rate(value.text);
    if (!rate) {
      problem(value.line,
              name_ + ": " + key + " = \"" + value.text +
                  "\" (not a rate). Write a number of bytes per second, or a unit: \"10Gb/s\" "
                  "for bits, \"1.25GB/s\" for bytes.");
      return std::nullopt;
    }
    return in_range(key, value.line, *rate, range) ? rate : std::nullopt;
  }
  return real(key, range, need);
}

std::optional<bool> TomlReader::boolean(const std::string& key, Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::boolean, need);
  if (value == nullptr) return std::nullopt;
  return value->boolean;
}

std::optional<std::vector<std::string>> TomlReader::strings(const std::string& key, Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::array, need);
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> result;
  for (const TomlValue& item : value->items) {
    if (item.kind != TomlValue::Kind::string) {
      wrong_type("an item of " + key, item.line, item.kind, "a string");
      return std::nullopt;
    }
    result.push_back(item.text);
  }
  return result;
}

std::optional<std::vector<std::int64_t>> TomlReader::integers(const std::string& key, Range range,
                                                              Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::array, need);
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> result;
  for (const TomlValue& item : value->items) {
    if (item.kind != TomlValue::Kind::integer) {
      wrong_type("an item of " + key, item.line, item.kind, "a whole number");
      return std::nullopt;
    }
    if (!in_range("an item of " + key, item.line, item.real, range)) return std::nullopt;
    result.push_back(item.integer);
  }
  return result;
}

std::optional<std::vector<double>> TomlReader::reals(const std::string& key, Range range,
                                                     Need need) {
  const TomlValue* value = find(key, TomlValue::Kind::array, need);
  if (value == nullptr) return std::nullopt;
  std::vector<double> result;
  for (const TomlValue& item : value->items) {
    if (item.kind != TomlValue::Kind::integer && item.kind != TomlValue::Kind::real) {
      wrong_type("an item of " + key, item.line, item.kind, "a number");
      return std::nullopt;
    }
    if (!in_range("an item of " + key, item.line, item.real, range)) return std::nullopt;
    result.push_back(item.real);
  }
  return result;
}

const TomlValue* TomlReader::table(const std::string& key, Need need) {
  return find(key, TomlValue::Kind::table, need);
}

std::vector<const TomlValue*> TomlReader::tables(const std::string& key, Need need) {
  // A table of a table is written with the names of both.
  const bool inner = name_.starts_with("[[");
  const std::string header =
      "[[" + (inner ? name_.substr(2, name_.find(']') - 2) + "." + key : key) + "]]";
  if (need == Need::required && !has(key)) {
    problem(table_.line,
            name_ + " has no " + header + " (at least one is required). Add a " + header + ".");
    known_.push_back(key);
    return {};
  }
  const TomlValue* value = find(key, TomlValue::Kind::array, need);
  if (value == nullptr) return {};
  if (need == Need::required && value->items.empty()) {
    problem(line_of(key),
            name_ + ": " + key + " is empty (at least one is required). Add a " + header + ".");
  }
  std::vector<const TomlValue*> result;
  for (const TomlValue& item : value->items) {
    if (item.kind == TomlValue::Kind::table) {
      result.push_back(&item);
    } else {
      wrong_type("an item of " + key, item.line, item.kind, "a table");
    }
  }
  return result;
}

void TomlReader::format_is_1() {
  known_.push_back("format");
  const auto& entries = table_.entries;
  const auto at = std::find_if(entries.begin(), entries.end(),
                               [](const auto& entry) { return entry.key == "format"; });
  if (at == entries.end()) {
    problem(1,
            "the file's format is missing (it determines how to read the file). "
            "Start the file with 'format = 1'.");
  } else if (at->value.kind != TomlValue::Kind::integer || at->value.integer != 1) {
    problem(at->value.line,
            "the file's format is not known (this version reads format 1). "
            "Write 'format = 1', or use a newer version.");
  } else if (at != entries.begin()) {
    problem(at->value.line,
            "format comes too late (it determines how to read the rest). "
            "Make 'format = 1' the first key.");
  }
}

void TomlReader::done() {
  for (const auto& [key, value] : table_.entries) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    problem(value.line, name_ + ": " + unknown("key", key, known_) + ". Correct or remove it.");
  }
}

}  // namespace hetpipe
