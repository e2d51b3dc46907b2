// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "base/unique_handle.h"

namespace hetpipe::cuda {

// A GPU's memory for one device: given and taken back in the order of a stream, so that neither
// waits. A pool of the driver's own keeps what was given back, and joins it to larger blocks; other
// processes get none of it before the device goes.
class CudaMemory {
 public:
  explicit CudaMemory(int device);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory();

  // Null where the card has no room left.
  std::byte* take(cudaStream_t stream, std::size_t bytes);
  void give_back(cudaStream_t stream, std::byte* memory) noexcept;

 private:
  int device_;
  cudaMemPool_t pool_ = nullptr;
};

}  // namespace hetpipe::cuda
