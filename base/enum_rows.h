// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

// Enums whose facts stand in a table of one row per enumerator. A row has at least the members
// `rule`, the enumerator, and `name`, the word for it in files, options and messages. Enumerators
// count from 0.
namespace hetpipe {

// Whether the enum of `value` has an enumerator of that value: a compiler writes any other as a
// cast, "(hetpipe::ScheduleRule)10".
template <auto value>
constexpr bool is_enumerator() {
  const std::string_view name = __PRETTY_FUNCTION__;
  return name[name.rfind('=') + 2] != '(';
}

// A row for every enumerator, in the enum's order, so that the enumerator is the row's index.
template <const auto& rows>
constexpr bool one_row_each() {
  using Rule = decltype(rows[0].rule);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].rule != static_cast<Rule>(i)) return false;
  }
  return !is_enumerator<static_cast<std::remove_const_t<Rule>>(rows.size())>();
}

template <class Row, std::size_t count>
constexpr const Row* find_named(const std::array<Row, count>& rows, std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The names of the rows for which `chosen` holds, in the table's order.
template <class Row, std::size_t count, class Chosen>
std::vector<std::string> names_where(const std::array<Row, count>& rows, Chosen chosen) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (chosen(row)) names.emplace_back(row.name);
  }
  return names;
}

template <class Row, std::size_t count>
std::vector<std::string> names_of(const std::array<Row, count>& rows) {
  return names_where(rows, [](const Row&) { return true; });
}

}  // namespace hetpipe
