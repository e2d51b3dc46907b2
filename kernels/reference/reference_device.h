// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"

// The definition of every kernel as plain loops: slow, single-threaded, without any library. Other
// devices are tested against it, and it runs under the thread sanitizer.
namespace hetpipe {

std::unique_ptr<Device> make_reference_device();

// Layer kernels over the templates of this folder; they keep no memory of their own.
std::unique_ptr<LayerKernel> make_reference_kernel(const LayerSpec& spec,
                                                   const std::vector<Shape>& inputs,
                                                   std::uint64_t key);

}  // namespace hetpipe
