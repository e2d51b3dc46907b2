// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: this module is linked so that what registers a kernel with CUDA goes
// through here (ld's --wrap), whichever compiler wrote it.
#include <cuda_runtime.h>

#include <set>

#include "kernels/cuda/own_kernels.h"

namespace {

// Registered while the module is loaded, by one thread and in no order of ours.
std::set<const void*>& kernels() {
  static std::set<const void*> registered;
  return registered;
}

}  // namespace

extern "C" {

void __real___cudaRegisterFunction(void** fat_binary, const char* kernel, char* device_kernel,
                                   const char* name, int thread_limit, uint3* thread, uint3* block,
                                   dim3* threads, dim3* blocks, int* warp_size);

void __wrap___cudaRegisterFunction(void** fat_binary, const char* kernel, char* device_kernel,
                                   const char* name, int thread_limit, uint3* thread, uint3* block,
                                   dim3* threads, dim3* blocks, int* warp_size) {
  kernels().insert(kernel);
  __real___cudaRegisterFunction(fat_binary, kernel, device_kernel, name, thread_limit, thread,
                                block, threads, blocks, warp_size);
}

}  // extern "C"

std::vector<const void*> hetpipe::cuda::own_kernels() {
  return {kernels().begin(), kernels().end()};
}
