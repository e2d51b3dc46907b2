// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/statistics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::bench {

Spread spread_of(std::vector<double> values) {
  ensure(!values.empty(), "a spread needs values");
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {  // between neighbours, as most programs do it
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    const double rest = place - std::floor(place);
    return values[below] * (1 - rest) + values[above] * rest;
  };
  return {at(0), at(0.25), at(0.5), at(0.75), at(1)};
}

std::string to_string(const Spread& s, const char* number, double scale) {
  char median[64], quarter[64], three_quarters[64];
  std::snprintf(median, sizeof median, number, s.median * scale);
  std::snprintf(quarter, sizeof quarter, number, s.quarter * scale);
  std::snprintf(three_quarters, sizeof three_quarters, number, s.three_quarters * scale);
  return format("%s (%s .. %s)", median, quarter, three_quarters);
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  ensure(a.size() == b.size(), "pairs of unequal length");
  std::vector<double> result;
  for (std::size_t i = 0; i < a.size(); ++i) result.push_back(a[i] / b[i]);
  return result;
}

RawValues::RawValues(const std::string& path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "w");
  if (file_ == nullptr) throw SystemError("cannot write " + path);
  std::fputs("{", file_);
}

RawValues::~RawValues() {
  if (file_ == nullptr) return;
  std::fputs("\n}\n", file_);
  std::fclose(file_);
}

void RawValues::add(const std::string& what, const std::vector<double>& values) {
  if (file_ == nullptr) return;
  std::fprintf(file_, "%s\n\"%s\": [", first_ ? "" : ",", what.c_str());
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::fprintf(file_, "%s%.6g", i == 0 ? "" : ", ", values[i]);
  }
  std::fputs("]", file_);
  first_ = false;
}

}  // namespace hetpipe::bench
