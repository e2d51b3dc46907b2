// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Text for people: numbers with units, tables, the nearest known word.
namespace hetpipe {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...);

std::string format_bytes(double bytes);      // "12.4 MB" (powers of ten, as vendors count)
std::string format_seconds(double seconds);  // "3.1 ms", "2 m 05 s", "1 h 02 m"
std::string format_count(double count);      // "61.7 k", "1.2 M"

// The candidate with the smallest edit distance, or empty when none is close (more than a third of
// the word would have to change).
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "unknown X 'word'" with "(did you mean 'Y'?)" when a near one exists; lists them all otherwise.
std::string unknown(std::string_view what, std::string_view word,
                    std::span<const std::string> candidates);

// Rows of cells with a header, columns padded; numbers (cells that start with a digit, '+' or '-')
// are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : header_(std::move(header)) {}
  void add(std::vector<std::string> row);
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;
};

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace hetpipe
