// SPDX-License-Identifier: Apache-2.0
#include "base/axis.h"

#include <algorithm>
#include <cmath>

namespace hetpipe {

double axis_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::vector<double> axis_marks(double low, double high, int count) {
  const double least = std::max(1e-9 * std::max(std::abs(low), std::abs(high)), 1e-290);
  const double step = axis_step(std::max(high - low, least), count);
  std::vector<double> marks;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    marks.push_back(i * step + 0.0);
  }
  return marks;
}

}  // namespace hetpipe
