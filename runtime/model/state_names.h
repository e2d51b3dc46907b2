// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/layer.h"

// How the tensors of built-in models are called and lie in a checkpoint and in PyTorch's
// state_dict.
namespace hetpipe {

// The order of a parameter's extents, as a checkpoint states it: "OIHW", "in,out" (whose transpose
// is PyTorch's), ... Vectors need none.
std::string order_of(const LayerSpec& owner, const Shape& shape);
inline constexpr const char* kInOut = "in,out";

// "conv1/weight" as "conv1.weight", and the last part as PyTorch's modules call it: of parameters
// scale and shift are weight and bias, of statistics mean and variance are running_mean and
// running_var.
std::string state_name_of_parameter(const std::string& name);
std::string state_name_of_statistic(const std::string& name);
inline constexpr const char* kRunningVariance = "running_var";

}  // namespace hetpipe
