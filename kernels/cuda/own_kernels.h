// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

// The kernels of own/ as CUDA knows them. Their code comes to a card when a kernel is launched
// first (CUDA_MODULE_LOADING=LAZY, the usual since CUDA 12.2), which may wait for everything that
// runs there; load_own_kernels() does it beforehand. The code of cuDNN and cuBLASLt, thousands of
// kernels, comes with the first call that needs it.
namespace hetpipe::cuda {

// By the addresses that launches name, each once. The list is written by what CUDA's compilers put
// into this module for each kernel (__cudaRegisterFunction), before anything of it runs.
std::vector<const void*> own_kernels();

// Brings all of them to the GPU in use.
void load_own_kernels();

}  // namespace hetpipe::cuda
