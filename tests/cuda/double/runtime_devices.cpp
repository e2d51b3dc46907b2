// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "tests/cuda/double/double.h"

namespace hetpipe::cuda::stand_in {
namespace {

thread_local int in_use = 0;
thread_local cudaError_t last = cudaSuccess;
thread_local std::string reason;

int gpus_there() {
  static const char* const text = std::getenv("HETPIPE_DOUBLE_GPUS");
  return text == nullptr ? 2 : std::clamp(std::atoi(text), 1, kGpus);
}
bool there(int device) { return device >= 0 && device < gpus_there(); }

std::atomic<unsigned> contexts = 0;  // bit by bit the GPUs of which this process has one

// False where another process has the GPU for itself. The lock is this process's to its end.
bool make_context(int device) {
  const unsigned bit = 1u << device;
  if ((contexts.fetch_or(bit) & bit) != 0) return true;
  const char* const folder = std::getenv("HETPIPE_DOUBLE_EXCLUSIVE");
  if (folder == nullptr) return true;
  const std::string file = std::string(folder) + "/gpu-" + std::to_string(device);
  const int lock = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) return true;
  contexts &= ~bit;
  return false;
}

}  // namespace

DescribedCard card() {
  const char* const text = std::getenv("HETPIPE_DOUBLE_CARD");
  DescribedCard card;
  if (text == nullptr) return card;
  double bytes = 0;
  char end = 0;
  const int read = std::sscanf(text, "%d.%d %lf%c", &card.major, &card.minor, &bytes, &end);
  if (read != 3 || !(bytes > 0)) {
    std::fprintf(
        stderr,
        "HETPIPE_DOUBLE_CARD=%s (must be a compute capability and bytes). Give \"8.6 24e9\".\n",
        text);
    std::abort();
  }
  card.memory = static_cast<std::size_t>(bytes);
  card.works = false;
  return card;
}

cudaError_t fail(cudaError_t status, const std::string& why) {
  reason = why;
  return last = status;
}

int gpu_in_use() {
  // What asks works there.
  if (!make_context(in_use)) throw SystemError("all CUDA-capable devices are busy or unavailable");
  return in_use;
}

double element(const void* memory, ElementType type, std::int64_t i) {
  switch (type) {
    case ElementType::fp32:
      return static_cast<double>(static_cast<const float*>(memory)[i]);
    case ElementType::bf16:
      return static_cast<double>(static_cast<float>(static_cast<const Bf16*>(memory)[i]));
    case ElementType::fp16:
      return static_cast<double>(static_cast<float>(static_cast<const Fp16*>(memory)[i]));
  }
  return 0;
}

void set_element(void* memory, ElementType type, std::int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case ElementType::fp32:
      static_cast<float*>(memory)[i] = narrow;
      return;
    case ElementType::bf16:
      static_cast<Bf16*>(memory)[i] = Bf16(narrow);
      return;
    case ElementType::fp16:
      static_cast<Fp16*>(memory)[i] = Fp16(narrow);
      return;
  }
}

double rounded_factor(double value, Precision precision) {
  if (precision != Precision::tf32) return value;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return static_cast<double>(std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu));
}

namespace {

// Whether the double's GPUs are parts of one card (multi-instance GPU).
bool are_parts() { return std::getenv("HETPIPE_DOUBLE_MIG") != nullptr; }

// A card for which no CUDA 13 has code.
bool is_old(int device) { return device == 0 && std::getenv("HETPIPE_DOUBLE_OLD") != nullptr; }

int driver_uuid(cudaUUID_t* uuid, int device) {
  if (!there(device)) return 1;
  std::memset(uuid->bytes, 0x40 + device, sizeof uuid->bytes);
  return 0;
}

}  // namespace

}  // namespace hetpipe::cuda::stand_in

using namespace hetpipe::cuda::stand_in;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t status = last;
  last = cudaSuccess;
  return status;
}
const char* cudaGetErrorString(cudaError_t) { return reason.c_str(); }
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorInvalidValue";
  }
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus_there();
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = in_use;
  return cudaSuccess;
}
unsigned hetpipe_double_contexts() { return contexts; }

cudaError_t cudaSetDevice(int device) {
  if (!there(device)) return fail(cudaErrorInvalidDevice, "no such GPU");
  if (!make_context(device)) {
    return fail(cudaErrorDevicesUnavailable, "all CUDA-capable devices are busy or unavailable");
  }
  in_use = device;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  const bool known = std::strcmp(name, "cuDeviceGetUuid") == 0;
  if (known) *entry = reinterpret_cast<void*>(driver_uuid);
  *found = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!there(device)) return fail(cudaErrorInvalidDevice, "no such GPU");
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "GPU's double %d%s", device,
                are_parts() ? " MIG 1g.5gb" : "");
  // Of parts the runtime names the card.
  std::memset(properties->uuid.bytes, are_parts() ? 0x10 : 0x10 + device,
              sizeof properties->uuid.bytes);
  properties->major = is_old(device) ? 6 : card().major;
  properties->minor = is_old(device) ? 1 : card().minor;
  properties->multiProcessorCount = 4;
  properties->totalGlobalMem = card().memory;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int device) {
  if (!there(device)) return fail(cudaErrorInvalidDevice, "no such GPU");
  switch (name) {
    case cudaDevAttrMemoryPoolsSupported:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrMemoryClockRate:
      *value = 1000000;
      return cudaSuccess;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 4096;
      return cudaSuccess;
    default:
      return fail(cudaErrorInvalidValue, "an attribute that the double does not have");
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!there(device)) return fail(cudaErrorInvalidDevice, "no such GPU");
  std::snprintf(text, static_cast<std::size_t>(length), "ffff:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = card().memory;
  *free = *total - memory_used(in_use);
  return cudaSuccess;
}

}  // extern "C"
