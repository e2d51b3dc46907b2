// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/unit/kernels/layer_run.h"

// Every layer type on the shapes that show mistakes, for comparisons of devices.
namespace hetpipe::test {

// Layers whose sums other devices form in other ways.
std::vector<LayerCase> summing_cases();
// Layers that the CPU device computes with the reference's bits.
std::vector<LayerCase> exact_cases();

}  // namespace hetpipe::test
