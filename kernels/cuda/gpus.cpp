// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/code.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_device.h"

namespace hetpipe::cuda {
namespace {

// A part of a card (multi-instance GPU) has a name such as "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
bool is_instance(const std::string& name) { return name.find(" MIG ") != std::string::npos; }

// Instances of one card have UUIDs of their own, for which the driver is to be asked: it tells them
// apart since CUDA 11.4. The runtime's properties name the card.
cudaUUID_t uuid_of_instance(int index, const cudaUUID_t& of_card) {
  constexpr unsigned kTellsApart = 11040;
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(
      "cuDeviceGetUuid", &entry, kTellsApart, cudaEnableDefault, &found);
#else
  static_assert(CUDART_VERSION >= kTellsApart);  // of the version that this is built with
  const cudaError_t status =
      cudaGetDriverEntryPoint("cuDeviceGetUuid", &entry, cudaEnableDefault, &found);
#endif
  cudaUUID_t uuid{};
  const bool known = status == cudaSuccess && found == cudaDriverEntryPointSuccess &&
                     reinterpret_cast<int (*)(cudaUUID_t*, int)>(entry)(&uuid, index) == 0;
  if (status != cudaSuccess) cudaGetLastError();
  return known ? uuid : of_card;
}

// As the driver's own tools print it: "GPU-8d2f1c4a-...", "MIG-90443af0-...".
std::string text_of(const cudaUUID_t& uuid, bool instance) {
  std::string text = instance ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += format("%02x", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// Linux keeps it beside the card; -1 where it does not say.
int numa_node_of(std::string pci) {
  std::transform(pci.begin(), pci.end(), pci.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::ifstream file("/sys/bus/pci/devices/" + pci + "/numa_node");
  int node = -1;
  file >> node;
  return file ? node : -1;
}

GpuInfo describe(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking for a GPU's properties");
  GpuInfo gpu;
  gpu.index = index;
  gpu.name = properties.name;
  const bool instance = is_instance(gpu.name);
  gpu.uuid =
      text_of(instance ? uuid_of_instance(index, properties.uuid) : properties.uuid, instance);
  char pci[32] = {};
  check(cudaDeviceGetPCIBusId(pci, sizeof pci, index), "asking for a GPU's PCI address");
  gpu.pci = pci;
  gpu.major = properties.major;
  gpu.minor = properties.minor;
  gpu.multiprocessors = properties.multiProcessorCount;
  gpu.memory = properties.totalGlobalMem;
  int clock = 0, bits = 0;  // kHz; two transfers per cycle
  check(cudaDeviceGetAttribute(&clock, cudaDevAttrMemoryClockRate, index), "asking for a clock");
  check(cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, index),
        "asking for the width of a GPU's memory");
  gpu.memory_bandwidth = 2.0 * 1e3 * clock * bits / 8;
  gpu.numa_node = numa_node_of(gpu.pci);
  gpu.why_not = why_unfit(HETPIPE_CUDA_CODE, cudnn_version(), gpu.name, gpu.major, gpu.minor);
  return gpu;
}

}  // namespace

std::vector<GpuInfo> find_gpus() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) return {};
  if (status == cudaErrorInsufficientDriver) {
    int driver = 0, runtime = 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    throw SystemError(driver == 0
                          ? "no NVIDIA driver on this machine"
                          : format("this machine's NVIDIA driver supports CUDA up to %d.%d, and "
                                   "this build needs %d.%d",
                                   driver / 1000, driver % 1000 / 10, runtime / 1000,
                                   runtime % 1000 / 10));
  }
  check(status, "looking for GPUs");
  std::vector<GpuInfo> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(describe(i));
  return gpus;
}

}  // namespace hetpipe::cuda
