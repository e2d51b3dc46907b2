// SPDX-License-Identifier: Apache-2.0
// Reads durations.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/simulator/durations.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostBadRows = 20;
constexpr std::size_t kMostDurations = 20'000'000;
constexpr std::int64_t kMostNumber = std::int64_t{1} << 48;

const std::array<std::string, 7> kDurationColumns{"virtual worker", "stage", "replica", "minibatch",
                                                  "micro-batch",    "kind",  "seconds"};

// Words of a header or of a kind: capitals, "_" and "-" do not matter.
std::string folded(std::string_view word) {
  std::string text;
  for (const char c : word) {
    const bool gap = c == '_' || c == '-' || c == ' ';
    text += gap ? ' ' : (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

std::string_view unquoted(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t start = 0; start <= line.size();) {
    const std::size_t end = std::min(line.find(',', start), line.size());
    cells.push_back(unquoted(line.substr(start, end - start)));
    start = end + 1;
  }
  return cells;
}

// Letters of actions, their names, and what is waited for. Nothing: what follows from the others.
const std::map<std::string, std::optional<Timed>>& kinds() {
  static const std::map<std::string, std::optional<Timed>> all{
      {"f", Timed::forward},
      {"forward", Timed::forward},
      {"b", Timed::backward},
      {"backward", Timed::backward},
      {"w", Timed::weight_gradient},
      {"weight gradient", Timed::weight_gradient},
      {"r", Timed::recompute},
      {"recompute", Timed::recompute},
      {"u", Timed::update},
      {"update", Timed::update},
      {"activations", Timed::activations},
      {"gradients", Timed::gradients},
      {"sum", Timed::sum},
      {"snapshot", Timed::snapshot},
      {"s", std::nullopt},
      {"send", std::nullopt},
      {"v", std::nullopt},
      {"receive", std::nullopt},
      {"p", std::nullopt},
      {"push", std::nullopt},
      {"l", std::nullopt},
      {"pull", std::nullopt},
      {"e", std::nullopt},
      {"evaluate", std::nullopt},
      {"c", std::nullopt},
      {"checkpoint", std::nullopt},
  };
  return all;
}

class DurationsReader {
 public:
  DurationsReader(std::string_view text, const std::string& file) : text_(text), file_(file) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) text_.remove_prefix(kByteOrderMark.size());
  }

  Durations read() {
    for (std::size_t start = 0; start < text_.size() && !enough();) {
      const std::size_t end = std::min(text_.find('\n', start), text_.size());
      const std::string_view line = text_.substr(start, end - start);
      start = end + 1;
      ++line_;
      if (unquoted(line).empty()) continue;
      if (columns_.empty()) {
        if (!read_header(cells_of(line))) problems_.throw_if_any();
      } else {
        read_row(cells_of(line));
      }
    }
    if (problems_.empty() && rows_.empty()) {
      problems_.add(file_,
                    "holds no time of an action (there is nothing to replay). Give what "
                    "hetpipe trace export --durations wrote, or rows of your own below the "
                    "line '" +
                        join(kDurationColumns, ",") + "'.");
    }
    problems_.throw_if_any();
    check_each_once();
    return Durations(std::move(rows_), file_, rest_);
  }

 private:
  bool enough() const { return problems_.list().size() >= kMostBadRows; }
  void add(const std::string& text) { problems_.add(file_ + ":" + std::to_string(line_), text); }

  // Which column each cell of a row is.
  bool read_header(const std::vector<std::string_view>& cells) {
    std::vector<std::string> missing(kDurationColumns.begin(), kDurationColumns.end());
    for (const std::string_view cell : cells) {
      const auto known =
          std::find_if(kDurationColumns.begin(), kDurationColumns.end(),
                       [&](const auto& column) { return folded(column) == folded(cell); });
      if (known == kDurationColumns.end()) {
        add(unknown("column", cell, kDurationColumns) +
            ". The first line names the columns: " + join(kDurationColumns, ",") + ".");
        return false;
      }
      if (std::erase(missing, *known) == 0) {
        add("column '" + *known + "' is given twice (a row has one). Remove one.");
        return false;
      }
      columns_.push_back(known - kDurationColumns.begin());
    }
    if (missing.empty()) return true;
    add("column '" + join(missing, "', '") +
        "' is missing (a row says which action took how "
        "long). The first line names the columns: " +
        join(kDurationColumns, ",") + ".");
    return false;
  }

  void read_row(const std::vector<std::string_view>& cells) {
    if (cells.size() != columns_.size()) {
      add(
          format("%zu values (there are %zu columns). Correct the line, or write the file again "
                 "if it was cut off.",
                 cells.size(), columns_.size()));
      return;
    }
    std::array<std::string_view, 7> value;
    for (std::size_t c = 0; c < cells.size(); ++c) value[at(columns_[c])] = cells[c];
    const auto kind = kinds().find(folded(value[5]));
    if (kind == kinds().end()) {
      std::vector<std::string> known;
      for (const auto& [name, what] : kinds()) {
        if (name.size() > 1) known.push_back(name);
      }
      add(unknown("kind", value[5], known) +
          ". Give F, B, W, R, U, or the names of actions "
          "(docs/simulator.md).");
      return;
    }
    Duration row;
    row.line = line_;
    const bool whole = number(value[0], kDurationColumns[0], row.where.virtual_worker) &&
                       number(value[1], kDurationColumns[1], row.where.stage) &&
                       number(value[2], kDurationColumns[2], row.where.replica) &&
                       number(value[3], kDurationColumns[3], row.minibatch) &&
                       (value[4].empty() || number(value[4], kDurationColumns[4], row.micro)) &&
                       seconds(value[6], row.seconds);
    if (!whole) return;
    if (!kind->second) {
      ++rest_;
      return;
    }
    row.what = *kind->second;
    if (rows_.size() == kMostDurations) {
      add(format("more than %zu rows (a part of a run is enough). Remove the last minibatches.",
                 kMostDurations));
    }
    rows_.push_back(row);
  }

  template <class Integer>
  bool number(std::string_view text, const std::string& column, Integer& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc() && end == text.data() + text.size();
    if (read && value >= 0 && value <= kMostNumber) return true;
    add(column + " = '" + std::string(text) + "' (a number counted from 0). Correct it.");
    return false;
  }

  bool seconds(std::string_view text, double& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = error == std::errc() && end == text.data() + text.size();
    if (read && std::isfinite(value) && value >= 0) return true;
    add("seconds = '" + std::string(text) +
        "' (a time is a number of seconds, 0 or more). "
        "Correct it.");
    return false;
  }

  void check_each_once() {
    std::vector<const Duration*> order;
    for (const Duration& row : rows_) order.push_back(&row);
    const auto key = [](const Duration* row) {
      return std::tuple(row->where, row->minibatch, row->micro, row->what);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](const auto* a, const auto* b) { return key(a) < key(b); });
    for (std::size_t i = 1; i < order.size() && !enough(); ++i) {
      if (key(order[i - 1]) != key(order[i])) continue;
      line_ = order[i]->line;
      add(
          format("%s of minibatch %lld, micro-batch %d, at %s is given twice (first in line %d; "
                 "an action takes one time). Remove one.",
                 std::string(to_string(order[i]->what)).c_str(),
                 static_cast<long long>(order[i]->minibatch), order[i]->micro,
                 to_string(order[i]->where).c_str(), order[i - 1]->line));
    }
    problems_.throw_if_any();
  }

  std::string_view text_;
  const std::string& file_;
  Problems problems_;
  std::vector<std::ptrdiff_t> columns_;
  std::vector<Duration> rows_;
  std::size_t rest_ = 0;
  int line_ = 0;
};

}  // namespace

Durations parse_durations(std::string_view text, const std::string& file) {
  return DurationsReader(text, file).read();
}

}  // namespace hetpipe
