// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check.h"

#include <cstring>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::cuda {

void check(cudaError_t status, std::string_view doing, const std::source_location& where) {
  if (status == cudaSuccess) return;
  const char* const text = cudaGetErrorString(status);
  cudaGetLastError();  // who goes on after a failure launches, which would report it again
  const char* const slash = std::strrchr(where.file_name(), '/');
  throw SystemError(format("CUDA: %s (%s), %.*s (%s:%u)", text, cudaGetErrorName(status),
                           static_cast<int>(doing.size()), doing.data(),
                           slash != nullptr ? slash + 1 : where.file_name(), where.line()));
}

}  // namespace hetpipe::cuda
