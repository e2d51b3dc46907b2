// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

// Reading the project's TOML files: typed, with the line of everything, all problems at once.
// toml++ itself is included only in toml_file.cpp.
namespace hetpipe {

struct TomlEntry;

struct TomlValue {
  enum class Kind { string, integer, real, boolean, array, table, other };
  Kind kind = Kind::table;
  int line = 0;
  std::string text;
  std::int64_t integer = 0;
  double real = 0;
  bool boolean = false;
  std::vector<TomlValue> items;    // of an array
  std::vector<TomlEntry> entries;  // of a table, in the file's order
};

struct TomlEntry {
  std::string key;
  TomlValue value;
};

// UserError with file:line on a syntax error.
TomlValue parse_toml(std::string_view text, const std::string& file);

// A number of a file is refused outside [least, most].
struct Range {
  double least;
  double most;
};

// One table while it is read. Every accessor notes the key as known and reports a wrong type or
// range; done() reports the keys that were not read. A required key that is missing is reported
// as well; what the accessor then returns is empty.
class TomlReader {
 public:
  enum class Need { optional, required };

  // `name` is the table's name in messages: "[link.inter_node]".
  TomlReader(const TomlValue& table, std::string name, const std::string& file, Problems& problems);

  std::optional<std::string> string(const std::string& key, Need need = Need::optional);
  std::optional<std::int64_t> integer(const std::string& key, Range range,
                                      Need need = Need::optional);
  std::optional<double> real(const std::string& key, Range range, Need need = Need::optional);
  // In bytes per second: a number, or a text with a unit (try_parse_rate()).
  std::optional<double> rate(const std::string& key, Range range, Need need = Need::optional);
  std::optional<bool> boolean(const std::string& key, Need need = Need::optional);
  std::optional<std::vector<std::string>> strings(const std::string& key,
                                                  Need need = Need::optional);
  std::optional<std::vector<std::int64_t>> integers(const std::string& key, Range range,
                                                    Need need = Need::optional);
  std::optional<std::vector<double>> reals(const std::string& key, Range range,
                                           Need need = Need::optional);
  const TomlValue* table(const std::string& key, Need need = Need::optional);
  std::vector<const TomlValue*> tables(const std::string& key,
                                       Need need = Need::optional);  // [[key]]
  void format_is_1();  // the first key of every file: format = 1
  void done();

  bool has(const std::string& key) const;
  int line_of(const std::string& key) const;  // of the table itself where the key is absent
  std::string where(int line) const;          // "file:line"
  std::string where() const { return where(table_.line); }
  const std::string& name() const { return name_; }
  void problem(int line, std::string text) { problems_.add(where(line), std::move(text)); }

 private:
  const TomlValue* find(const std::string& key, TomlValue::Kind kind, Need need);
  void wrong_type(const std::string& key, int line, TomlValue::Kind is, const char* should);
  bool in_range(const std::string& key, int line, double value, Range range);

  const TomlValue& table_;
  std::string name_;
  const std::string& file_;
  Problems& problems_;
  std::vector<std::string> known_;
};

// Writing: a string with its quotes and escapes, a number that reads back as the same double, bytes
// with underscores between thousands.
std::string toml_string(std::string_view text);
std::string toml_real(double value);
std::string toml_bytes(std::int64_t bytes);
std::string toml_strings(const std::vector<std::string>& texts);  // ["a", "b"]

}  // namespace hetpipe
