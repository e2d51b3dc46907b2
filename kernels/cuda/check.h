// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <source_location>
#include <string_view>

// CUDA's statuses as SystemError that says what was being done, and where.
namespace hetpipe::cuda {

void check(cudaError_t status, std::string_view doing,
           const std::source_location& where = std::source_location::current());

}  // namespace hetpipe::cuda
