// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "base/unique_handle.h"

// Owners of CUDA's handles, whatever made them.
namespace hetpipe::cuda {

struct StreamTraits {
  using Handle = cudaStream_t;
  static Handle empty() { return nullptr; }
  static void close(Handle stream) noexcept { cudaStreamDestroy(stream); }
};
using UniqueStream = UniqueHandle<StreamTraits>;

struct EventTraits {
  using Handle = cudaEvent_t;
  static Handle empty() { return nullptr; }
  static void close(Handle event) noexcept { cudaEventDestroy(event); }
};
using UniqueEvent = UniqueHandle<EventTraits>;

struct MemoryTraits {
  using Handle = void*;
  static Handle empty() { return nullptr; }
  static void close(Handle memory) noexcept { cudaFree(memory); }
};
using UniqueMemory = UniqueHandle<MemoryTraits>;

}  // namespace hetpipe::cuda
