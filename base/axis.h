// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace hetpipe {

// Between two marks of an axis over `range` > 0: 1, 2 or 5 times a power of ten, so that at most
// `count` steps fit.
double axis_step(double range, int count);

// Its multiples from low to high. A range of no length has one mark at most.
std::vector<double> axis_marks(double low, double high, int count);

}  // namespace hetpipe
