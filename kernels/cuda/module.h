// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "kernels/device.h"
#include "kernels/element.h"
#include "kernels/peer_memory.h"

// The CUDA device is a module that is loaded at run time: one program runs where there is a GPU and
// where neither driver nor libraries are. This is the interface between the two; it names nothing
// of CUDA's.
namespace hetpipe {

// A GPU as the driver describes it.
struct GpuInfo {
  int index = 0;     // as CUDA counts the visible ones
  std::string name;  // "NVIDIA H200"
  std::string
      uuid;  // "GPU-8d2f...", "MIG-9044..." of a part: the same for every process that shares it
  std::string pci;  // "0000:3b:00.0"
  int major = 0;    // compute capability
  int minor = 0;
  int multiprocessors = 0;
  std::size_t memory = 0;  // bytes
  // By who asks for it (free_memory_of in launch/probe/nvml.h): CUDA would make a context on the
  // card to tell.
  std::size_t free_memory = 0;
  double memory_bandwidth = 0;  // bytes/s, from clock and width
  int numa_node = -1;           // -1: not known
  // Why this build cannot use it: it has no code for such a card. Empty where it can.
  std::string why_not = {};
};
constexpr auto fields_of(Type<GpuInfo>) {
  return fields<&GpuInfo::index, &GpuInfo::name, &GpuInfo::uuid, &GpuInfo::pci, &GpuInfo::major,
                &GpuInfo::minor, &GpuInfo::multiprocessors, &GpuInfo::memory, &GpuInfo::free_memory,
                &GpuInfo::memory_bandwidth, &GpuInfo::numa_node, &GpuInfo::why_not>;
}

// The default precision of a card: bf16 from compute capability 8.0
// on, fp16 on cards with tensor cores before (7.0), else fp32.
inline Precision usual_precision(const GpuInfo& gpu) {
  return gpu.major >= 8 ? Precision::bf16 : gpu.major >= 7 ? Precision::fp16 : Precision::fp32;
}

struct GpuOptions {
  int index = 0;
  std::optional<Precision> precision;  // absent: usual_precision
  // Where execution plans that were found by measuring are kept; empty: nowhere.
  std::string plan_cache;
  // Bytes that an execution plan may use; 0: a thirty-second of the card's memory, at most 1 GiB.
  std::size_t workspace = 0;
};

class CudaModule {
 public:
  virtual ~CudaModule() = default;
  virtual std::string versions() const = 0;  // "CUDA 13.0, cuDNN 9.19.0, cuBLASLt 13.1.0"
  // Makes no context on any of them. SystemError where the driver does not answer, with its reason.
  virtual std::vector<GpuInfo> gpus() const = 0;
  // UserError for a precision that the card does not have.
  virtual std::unique_ptr<Device> make_device(const GpuOptions& options) const = 0;
  // Of a device that this module has made; outlives what is made by it.
  virtual std::unique_ptr<PeerMemory> make_peer_memory(Device& device) const = 0;
  virtual std::size_t own_kernels() const = 0;  // how many there are, of all types and sizes
};

// Increased with every change of the above or of kernels/device.h.
inline constexpr int kCudaModuleAbi = 4;
inline constexpr const char* kCudaModuleEntry = "hetpipe_cuda_module";
// Null for another ABI number than the module's own.
using CudaModuleEntry = const CudaModule* (*)(int abi);

}  // namespace hetpipe
