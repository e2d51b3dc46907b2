// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/element.h"
#include "kernels/layer.h"
#include "kernels/offload/far_memory.h"

namespace hetpipe {

// A layer of the CPU device, enqueued on a ThreadStream: arguments are copied, as their spans end
// with the call; activations of two bytes become floats for it, and its results are rounded.
std::unique_ptr<LayerKernel> make_offload_kernel(std::shared_ptr<LayerKernel> kernel,
                                                 const LayerSpec& spec,
                                                 const std::vector<Shape>& inputs, ElementType type,
                                                 const FarMemory& memory, Stream& host);

}  // namespace hetpipe
