// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cuda/module.h"

namespace hetpipe::cuda {

// A GPU as a Device. UserError for a precision that the card does not have.
std::unique_ptr<Device> make_cuda_device(const GpuOptions& options);

// The GPU of such a device, as CUDA counts the visible ones.
int index_of(const Device& device);

}  // namespace hetpipe::cuda
