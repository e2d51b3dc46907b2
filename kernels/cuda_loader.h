// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernels/cuda/module.h"

namespace hetpipe {

// What became of loading the CUDA module, which happens once per process.
struct CudaLoad {
  const CudaModule* module = nullptr;
  std::string why_not;  // where there is none: "not loadable: libcudart.so.13: cannot open ..."
};

// Looks for the module hetpipe_cuda.so (base/module_file.h), unless given another.
const CudaLoad& load_cuda();

// For tests, before the first load: the module at this path.
void use_cuda_module(const std::string& path);

}  // namespace hetpipe
