// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/module.h"

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/own_kernels.h"

namespace hetpipe {
namespace {

class Module final : public CudaModule {
 public:
  std::string versions() const override {
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    const std::size_t dnn = cudnnGetVersion(), blas = cublasLtGetVersion();
    return format("CUDA %d.%d, cuDNN %zu.%zu.%zu, cuBLASLt %zu.%zu.%zu", runtime / 1000,
                  runtime % 1000 / 10, dnn / 10000, dnn % 10000 / 100, dnn % 100, blas / 10000,
                  blas % 10000 / 100, blas % 100);
  }
  std::vector<GpuInfo> gpus() const override { return cuda::find_gpus(); }
  std::unique_ptr<Device> make_device(const GpuOptions& options) const override {
    return cuda::make_cuda_device(options);
  }
  std::unique_ptr<PeerMemory> make_peer_memory(Device& device) const override {
    return cuda::make_cuda_peer_memory(cuda::index_of(device), device.memory());
  }
  std::size_t own_kernels() const override { return cuda::own_kernels().size(); }
};

}  // namespace
}  // namespace hetpipe

extern "C" const hetpipe::CudaModule* hetpipe_cuda_module(int abi) {
  static const hetpipe::Module module;
  return abi == hetpipe::kCudaModuleAbi ? &module : nullptr;
}
