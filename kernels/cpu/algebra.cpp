// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {

std::unique_ptr<LayerKernel> make_algebra(CpuContext&, const LayerSpec& spec,
                                          const std::vector<Shape>& inputs, std::uint64_t key) {
  return make_algebra_kernel(spec, inputs, key);
}

}  // namespace hetpipe
