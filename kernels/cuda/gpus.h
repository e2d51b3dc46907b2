// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/module.h"

namespace hetpipe::cuda {

// All that this process sees, by CUDA's numbers. SystemError with the driver's reason where it does
// not answer; none is no failure.
std::vector<GpuInfo> find_gpus();

}  // namespace hetpipe::cuda
