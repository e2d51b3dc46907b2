// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_memory.h"

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_stream.h"

namespace hetpipe::cuda {

CudaMemory::CudaMemory(int device) : device_(device) {
  use_gpu(device_);
  int supported = 0;
  check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device_),
        "asking for memory pools");
  if (supported == 0) {
    throw SystemError(
        format("CUDA device %d: its driver has no stream-ordered memory (memory "
               "pools are off, as under some virtual GPUs)",
               device_));
  }
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypeNone;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device_;
  check(cudaMemPoolCreate(&pool_, &properties), "making a memory pool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
        "telling a memory pool to keep what it has");
}

CudaMemory::~CudaMemory() {
  if (pool_ != nullptr) cudaMemPoolDestroy(pool_);
}

std::byte* CudaMemory::take(cudaStream_t stream, std::size_t bytes) {
  use_gpu(device_);
  void* memory = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, pool_, stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // or the next launch would report it
    return nullptr;
  }
  check(status, "taking memory");
  return static_cast<std::byte*>(memory);
}

void CudaMemory::give_back(cudaStream_t stream, std::byte* memory) noexcept {
  cudaFreeAsync(memory, stream);
}

}  // namespace hetpipe::cuda
