// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "kernels/damping.h"
#include "runtime/model/parameters.h"

// What an optimizer does differently from parameter to parameter: which weights decay, and rates by
// groups of layers.
namespace hetpipe {

// The learning rate of these parameters, as a factor of everybody's.
struct RateOf {
  std::string pattern;
  double factor = 1;
};
constexpr auto fields_of(Type<RateOf>) { return fields<&RateOf::pattern, &RateOf::factor>; }

// Whether a pattern covers a parameter: it matches the parameter's name, or that of a module that
// holds it. In a pattern * stands for any characters, dots included, and ? for one. Modules and
// parameters are written with dots: "encoder.layer.?" covers "encoder.layer.3.mlp/weight", and so
// does "*.weight".
bool covers(const std::string& pattern, const std::string& parameter);

// One parameter, as an optimizer sees it: so many floats of the flat arrays.
struct OptimizedParameter {
  std::int64_t count = 0;
  bool frozen = false;  // has no gradient and does not change
  bool decays = true;
  double rate = 1;        // factor of the learning rate
  DampedMatrix matrix{};  // as damping sees it; no rows: a vector
};

// Those of a layout that are its own, in its order. A parameter decays if it has two dimensions or
// more (in the file's shape), or if vectors do. Of several patterns that cover it, the first gives
// its rate.
std::vector<OptimizedParameter> optimized_parameters(const ParameterLayout& layout,
                                                     bool vectors_decay,
                                                     const std::vector<RateOf>& rates);

}  // namespace hetpipe
