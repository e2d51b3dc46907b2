// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"

namespace hetpipe {

// The terms' own kernels of the device, one after another. `device` outlives it.
std::unique_ptr<LayerKernel> make_joint_loss(Device& device, const JointLoss& spec,
                                             const std::vector<Shape>& inputs);

// Of a term, as a layer of its own.
LayerSpec loss_of(const JointLoss::Term& term);

}  // namespace hetpipe
