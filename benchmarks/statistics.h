// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

// What every table says about repeated measurements.
namespace hetpipe::bench {

struct Spread {
  double least = 0, quarter = 0, median = 0, three_quarters = 0, most = 0;
};
Spread spread_of(std::vector<double> values);
// "3.10 (2.95 .. 3.40)": median and quartiles of values times `scale`.
std::string to_string(const Spread& spread, const char* number, double scale = 1);

// a[i] / b[i]: pairs that were measured one right after the other, so that a machine that is slow
// for a while is slow for both.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

// One line per list of raw values, for whoever wants to doubt a table: {"what": [..], ...}.
class RawValues {
 public:
  explicit RawValues(const std::string& path);  // empty: nothing is written
  ~RawValues();
  RawValues(const RawValues&) = delete;
  RawValues& operator=(const RawValues&) = delete;
  void add(const std::string& what, const std::vector<double>& values);

 private:
  std::FILE* file_ = nullptr;
  bool first_ = true;
};

}  // namespace hetpipe::bench
