// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"

namespace hetpipe {

// e^(x - max) over their sum, computed in double; `temperature` divides x first.
std::vector<double> softmax(std::span<const float> logits, double temperature = 1);
// Classes by their value, the largest first; equal ones in their order. At most `count`.
std::vector<int> largest(std::span<const double> values, int count);

// Adds "class", "name" where it is known, "probability", and "top": the `top` most probable
// classes, as objects of the same three.
void add_prediction(Json& line, std::span<const float> logits, int top,
                    const std::vector<std::string>& names);

}  // namespace hetpipe
