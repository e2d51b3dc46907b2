// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/element.h"
#include "kernels/layer.h"
#include "partitioner/profile/profile.h"
#include "runtime/model/model.h"

// What a profile says of a model's layers beside times. `shapes` are those of all layers, at any
// batch where none is given: as a device's kernels have them, or the model's own.
namespace hetpipe {

ProfileLayer profiled_layer(const Model& model, const std::vector<LayerShapes>& shapes, int layer);

// What waits from a layer's forward to its backward: its stash, its output where a backward reads
// it, and the samples, of the first layer that reads them.
std::int64_t kept_bytes(const Model& model, const std::vector<LayerShapes>& shapes, int layer,
                        int batch, ElementType activations);

// The profile of a model that nothing has measured: its layers with their flops and bytes, from
// which the times of every device type are estimated whose peaks are known
// (partitioner/profile/estimate.h).
Profile unmeasured_profile(const Model& model);

}  // namespace hetpipe
