// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>

#include "base/error.h"

namespace hetpipe {
namespace {

std::string scaled(double value, std::span<const char* const> units, const char* separator) {
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  const bool whole = unit == 0 || std::abs(value) >= 99.95;
  std::string text = whole ? format("%.0f", value) : format("%.1f", value);
  if (*units[unit] != '\0') text += separator + std::string(units[unit]);
  return text;
}

// Letters put in, left out, changed, or swapped with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);  // the row above the one above
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row.back();
}

bool is_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) ||
                           ((cell[0] == '-' || cell[0] == '+') && cell.size() > 1));
}

std::size_t display_width(std::string_view text) {  // code points of UTF-8
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string format(const char* pattern, ...) {
  va_list args;
  va_start(args, pattern);
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, pattern, args);
  va_end(args);
  std::string text(static_cast<std::size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string format_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  return scaled(bytes, kUnits, " ");
}

std::string format_count(double count) {
  static constexpr std::array<const char*, 5> kUnits{"", "k", "M", "G", "T"};
  return scaled(count, kUnits, " ");
}

std::string format_seconds(double seconds) {
  const double magnitude = std::abs(seconds);
  if (seconds == 0) return "0 s";
  if (magnitude < 1e-3) return format("%.0f us", seconds * 1e6);
  if (magnitude < 0.1) return format("%.1f ms", seconds * 1e3);
  if (magnitude < 1) return format("%.0f ms", seconds * 1e3);
  if (magnitude < 60) return format("%.1f s", seconds);
  const long whole = std::lround(seconds);
  if (magnitude < 3600) return format("%ld m %02ld s", whole / 60, whole % 60);
  return format("%ld h %02ld m", whole / 3600, whole % 3600 / 60);
}

namespace {

// "ResNet18" and "resnet-18" are one name to people.
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c == '-' || c == '_' || c == ' ') continue;
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (!plain(word).empty() && plain(word) == plain(candidate)) return candidate;
  }
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string unknown(std::string_view what, std::string_view word,
                    std::span<const std::string> candidates) {
  std::string text = "unknown " + std::string(what) + " '" + std::string(word) + "'";
  const std::string near = nearest(word, candidates);
  if (!near.empty()) return text + " (did you mean '" + near + "'?)";
  return text + " (known: " + join(candidates, ", ") + ")";
}

void Table::add(std::vector<std::string> row) {
  ensure(row.size() == header_.size(), "table row has another length than its header");
  rows_.push_back(std::move(row));
}

std::string Table::text(std::string_view indent) const {
  std::vector<std::size_t> width(header_.size());
  for (std::size_t c = 0; c < header_.size(); ++c) {
    width[c] = display_width(header_[c]);
    for (const auto& row : rows_) width[c] = std::max(width[c], display_width(row[c]));
  }
  const auto line = [&](const std::vector<std::string>& cells, const std::vector<bool>& right) {
    std::string out(indent);
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string pad(width[c] - display_width(cells[c]), ' ');
      out += right[c] ? pad + cells[c] : cells[c] + pad;
      if (c + 1 < cells.size()) out += "  ";
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + '\n';
  };
  std::vector<bool> right(header_.size());
  for (std::size_t c = 0; c < header_.size(); ++c) {
    right[c] = !rows_.empty() && std::all_of(rows_.begin(), rows_.end(), [&](const auto& row) {
      return is_number(row[c]) || row[c].empty() || row[c] == "-";
    });
  }
  std::string out = line(header_, right);
  for (const auto& row : rows_) out += line(row, right);
  return out;
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == separator) {
      parts.emplace_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  return parts;
}

}  // namespace hetpipe
