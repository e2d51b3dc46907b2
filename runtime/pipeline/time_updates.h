// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/damping.h"
#include "kernels/device.h"
#include "partitioner/profile/matrices.h"
#include "runtime/model/model.h"

namespace hetpipe {

// The matrices among a layer's own parameters that training changes, as optimizers see them.
std::vector<DampedMatrix> matrices_of(const Model& model, int layer);

// s by layer that some optimizers take for changes of matrices, beside what every update takes.
struct MatrixTimes {
  std::vector<double> damped;      // in kUsualDirections (Device::damp)
  std::vector<double> orthogonal;  // Orthogonalizer
};

// Each matrix timed alone on the device. Where one takes long, a smaller one of its form is timed,
// which takes milliseconds, and counted by the arithmetic. `clock`: ns.
MatrixTimes time_matrices(const Model& model, Device& device,
                          const std::function<std::int64_t()>& clock);

}  // namespace hetpipe
