// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/damping.h"

// Device::damp (kernels/device.h), bit for bit. Of each direction, reads d
// four times and writes it once.
namespace hetpipe::cuda {

// Floats of scratch that damp takes.
std::int64_t damp_scratch(const DampedMatrix& matrix);
// squares: 1 + squares_scratch(inputs) doubles of scratch.
void damp(float* d, const DampedMatrix& matrix, const DampOptions& options, double* squares,
          float* scratch, On on);

}  // namespace hetpipe::cuda
