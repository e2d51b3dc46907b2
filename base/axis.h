// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hetpipe {

// Between two marks of an axis over `range` > 0: the least of 1, 2 and 5 times a power of ten of
// which no more than `count` fit.
double axis_step(double range, int count);

// Its multiples from low to high.
std::vector<double> axis_marks(double low, double high, int count);

}  // namespace hetpipe
