// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/algebra.h"
#include "kernels/expression_gradient.h"

// What every device's kernel of a Pointwise layer is made of.
namespace hetpipe {

// The gradients of all operands but constants; from the output where that reads fewer inputs.
ExpressionGradient gradient_of(const Pointwise& layer);

}  // namespace hetpipe
