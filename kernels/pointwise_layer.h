// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/algebra.h"
#include "kernels/expression_gradient.h"

// What every device's kernel of a Pointwise layer is made of.
namespace hetpipe {

// The same values with each operand once, of an expression that is simplified(). What a kernel
// computes, and what backward_needs() is about.
Pointwise merged(const Pointwise& layer);

// The gradients of all operands but constants; from the output where that reads fewer inputs. Of
// what merged() gave.
ExpressionGradient gradient_of(const Pointwise& layer);

}  // namespace hetpipe
