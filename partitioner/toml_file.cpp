// SPDX-License-Identifier: Apache-2.0
#include "partitioner/toml_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <tuple>

#include "base/text.h"

// The parser takes some malformed lines ("[[[") for mistakes of its own. They are the file's, in
// builds without assertions too.
namespace hetpipe {
struct MalformedToml {};
[[noreturn]] static void malformed_toml() { throw MalformedToml(); }
}  // namespace hetpipe
#undef NDEBUG
#define TOML_ASSERT(expression) \
  (static_cast<bool>(expression) ? void() : ::hetpipe::malformed_toml())
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

namespace hetpipe {
namespace {

// How many lines of the text the parser can read: the next one is malformed.
int sound_lines(std::string_view text) {
  std::vector<std::size_t> ends{0};  // of the first 0, 1, ... lines
  for (std::size_t at = text.find('\n'); at != std::string_view::npos;
       at = text.find('\n', at + 1)) {
    ends.push_back(at + 1);
  }
  ends.push_back(text.size());
  const auto malformed = [&](std::size_t end) {
    try {
      static_cast<void>(toml::parse(text.substr(0, end)));
    } catch (const MalformedToml&) {
      return true;
    } catch (const toml::parse_error&) {  // cut in the middle of a value
    }
    return false;
  };
  const auto first = std::partition_point(ends.begin(), ends.end(),
                                          [&](std::size_t end) { return !malformed(end); });
  return static_cast<int>(first - ends.begin()) - 1;
}

TomlValue value_of(const toml::node& node) {
  TomlValue value;
  value.line = static_cast<int>(node.source().begin.line);
  if (const auto* table = node.as_table()) {
    value.kind = TomlValue::Kind::table;
    std::vector<std::tuple<int, int, const toml::key*, const toml::node*>> order;
    for (const auto& [key, entry] : *table) {
      const auto& at = key.source().begin;
      order.emplace_back(static_cast<int>(at.line), static_cast<int>(at.column), &key, &entry);
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    });
    for (const auto& [line, column, key, entry] : order) {
      value.entries.emplace_back(std::string(key->str()), value_of(*entry));
      if (!entry->is_table()) value.entries.back().second.line = line;
    }
  } else if (const auto* array = node.as_array()) {
    value.kind = TomlValue::Kind::array;
    for (const toml::node& item : *array) value.items.push_back(value_of(item));
  } else if (const auto* text = node.as_string()) {
    value.kind = TomlValue::Kind::string;
    value.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = TomlValue::Kind::integer;
    value.integer = integer->get();
    value.real = static_cast<double>(value.integer);
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = TomlValue::Kind::real;
    value.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = TomlValue::Kind::boolean;
    value.boolean = boolean->get();
  } else {
    value.kind = TomlValue::Kind::other;
  }
  return value;
}

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

TomlValue parse_toml(std::string_view text, const std::string& file) {
  try {
    return value_of(toml::parse(text, file));
  } catch (const toml::parse_error& error) {
    throw UserError(format("%s:%u", file.c_str(), static_cast<unsigned>(error.source().begin.line)),
                    "not TOML (" + std::string(error.description()) + "). Correct the line.");
  } catch (const MalformedToml&) {
    throw UserError(format("%s:%d", file.c_str(), sound_lines(text) + 1),
                    "not TOML (malformed key). Correct the line.");
  }
}

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
                     [&](const auto& entry) { return entry.first == key; });
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
      "must lie between " + number_text(range.least) + " and " + number_text(range.most);
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
  const TomlValue* value = find(key, TomlValue::Kind::array, need);
  if (value == nullptr) return {};
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
                               [](const auto& entry) { return entry.first == "format"; });
  if (at == entries.end()) {
    problem(1,
            "the file's format is missing (it tells which rules the file follows). "
            "Start the file with 'format = 1'.");
  } else if (at->second.kind != TomlValue::Kind::integer || at->second.integer != 1) {
    problem(at->second.line,
            "the file's format is not known (this version reads format 1). "
            "Write 'format = 1', or use a newer version.");
  } else if (at != entries.begin()) {
    problem(at->second.line,
            "format stands too late (it tells how to read the rest). "
            "Make 'format = 1' the first key.");
  }
}

void TomlReader::done() {
  for (const auto& [key, value] : table_.entries) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    problem(value.line, name_ + ": " + unknown("key", key, known_) + ". Correct or remove it.");
  }
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += format("\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_real(double value) {
  ensure(std::isfinite(value), "a file's number must be finite");
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

std::string toml_bytes(std::int64_t bytes) {
  std::string text = std::to_string(bytes);
  for (int at = static_cast<int>(text.size()) - 3; at > (bytes < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), "_");
  }
  return text;
}

std::string toml_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_string(text));
  return "[" + join(quoted, ", ") + "]";
}

}  // namespace hetpipe
