// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "kernels/cuda_loader.h"

// own_kernels MODULE: how many kernels the CUDA module lists as its own. Needs no GPU.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: own_kernels MODULE\n");
    return 2;
  }
  hetpipe::use_cuda_module(argv[1]);
  const hetpipe::CudaLoad& loaded = hetpipe::load_cuda();
  if (loaded.module == nullptr) {
    std::fprintf(stderr, "%s\n", loaded.why_not.c_str());
    return 1;
  }
  std::printf("%zu\n", loaded.module->own_kernels());
  return 0;
}
