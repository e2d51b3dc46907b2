// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/layer.h"

// The optimizers of Device (kernels/device.h), bit for bit: one launch for a whole flat array of
// fp32 in device memory. Arrays do not overlap.
namespace hetpipe::cuda {

// velocity may be null where momentum is 0.
void sgd(float* delta, float* velocity, const float* gradient, const float* weights,
         const SgdOptions& options, std::int64_t count, On on);
void adam(float* delta, float* first, float* second, const float* gradient, const float* weights,
          const AdamOptions& options, std::int64_t step, std::int64_t count, On on);
void rmsprop(float* delta, float* second, const float* gradient, const float* weights,
             const RmspropOptions& options, std::int64_t count, On on);
// update *= trust_factor(squares, rate), which `factor` (device memory) is left with.
void scale_by_trust(float* update, const double* squares, float rate, std::int64_t count,
                    float* factor, On on);

void look_ahead(float* ahead, const float* weights, const float* x, float factor,
                std::int64_t count, On on);
void look_ahead_adam(float* ahead, const float* weights, const float* first, const float* second,
                     const AdamOptions& options, std::int64_t step, float factor,
                     std::int64_t count, On on);

}  // namespace hetpipe::cuda
