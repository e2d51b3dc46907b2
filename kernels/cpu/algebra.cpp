// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/algebra.h"

#include "kernels/reference/reference_device.h"

namespace hetpipe {

std::unique_ptr<LayerKernel> make_algebra(CpuContext& context, const LayerSpec& spec,
                                          const std::vector<Shape>& inputs, std::uint64_t key) {
  if (const auto* p = std::get_if<Pointwise>(&spec)) {
    return make_pointwise(*p, inputs, context.threads);
  }
  return make_algebra_kernel(spec, inputs, key);
}

}  // namespace hetpipe
