// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own_kernels.h"

#include <cuda_runtime.h>

#include "kernels/cuda/check.h"

namespace hetpipe::cuda {

// Which is documented to load the kernel (CUDA's guide, "Lazy Loading").
void load_own_kernels() {
  for (const void* const kernel : own_kernels()) {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
  }
}

}  // namespace hetpipe::cuda
