// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "tests/unit/kernels/layer_run.h"

// Layers of kernels/algebra.h on the operands that show mistakes: broadcasts, tables, strides of
// all signs, several operands of one input, parameters and constants.
namespace hetpipe::test {

// Small: for central differences too.
std::vector<LayerCase> small_algebra_cases();
// Of sizes at which kernels take blocks, pieces and threads.
std::vector<LayerCase> large_algebra_cases();

// y = op(a, b, c) of inputs of one shape (N, F).
LayerCase pointwise_case(std::string_view op, const Shape& in);
// Strides of a plain tensor.
std::vector<std::int64_t> plain_strides(const std::vector<std::int64_t>& extents);

}  // namespace hetpipe::test
