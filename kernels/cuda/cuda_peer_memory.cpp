// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <cstring>

#include "base/error.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_stream.h"

namespace hetpipe::cuda {
namespace {

class SharedBlock final : public PeerMemory::Block {
 public:
  SharedBlock(int device, std::size_t bytes, MemoryAccount& account)
      : device_(device), bytes_(bytes), account_(account) {
    account_.take(bytes_, MemoryKind::paths);
    use_gpu(device_);
    const cudaError_t status = cudaMalloc(&memory_, bytes_);
    if (status == cudaSuccess) return;
    account_.give_back(bytes_, MemoryKind::paths);
    check(status, "taking memory to share");
  }
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;
  ~SharedBlock() override {
    cudaFree(memory_);
    account_.give_back(bytes_, MemoryKind::paths);
  }
  std::byte* data() const override { return static_cast<std::byte*>(memory_); }

  std::string handle() const {
    use_gpu(device_);
    cudaIpcMemHandle_t handle{};
    check(cudaIpcGetMemHandle(&handle, memory_), "asking for the handle of shared memory");
    return {handle.reserved, sizeof handle.reserved};
  }

 private:
  int device_;
  std::size_t bytes_;
  MemoryAccount& account_;
  void* memory_ = nullptr;
};

class OpenedBlock final : public PeerMemory::Block {
 public:
  OpenedBlock(int device, const cudaIpcMemHandle_t& handle) : device_(device) {
    use_gpu(device_);
    check(cudaIpcOpenMemHandle(&memory_, handle, cudaIpcMemLazyEnablePeerAccess),
          "opening another process's GPU memory");
  }
  OpenedBlock(const OpenedBlock&) = delete;
  OpenedBlock& operator=(const OpenedBlock&) = delete;
  ~OpenedBlock() override { cudaIpcCloseMemHandle(memory_); }
  std::byte* data() const override { return static_cast<std::byte*>(memory_); }

 private:
  int device_;
  void* memory_ = nullptr;
};

class CudaPeerMemory final : public PeerMemory {
 public:
  CudaPeerMemory(int device, MemoryAccount& account) : device_(device), account_(account) {}

  Shared share(std::size_t bytes) override {
    auto block = std::make_unique<SharedBlock>(device_, bytes, account_);
    std::string handle = block->handle();
    return {std::move(block), std::move(handle)};
  }
  std::unique_ptr<Block> open(const std::string& handle) override {
    cudaIpcMemHandle_t own{};
    if (handle.size() != sizeof own.reserved) {
      throw SystemError("a handle of another kind of memory than CUDA's");
    }
    std::memcpy(own.reserved, handle.data(), handle.size());
    return std::make_unique<OpenedBlock>(device_, own);
  }

 private:
  int device_;
  MemoryAccount& account_;
};

}  // namespace

std::unique_ptr<PeerMemory> make_cuda_peer_memory(int device, MemoryAccount& account) {
  return std::make_unique<CudaPeerMemory>(device, account);
}

}  // namespace hetpipe::cuda
