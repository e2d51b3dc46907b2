// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "tests/cuda/double/double.h"
#include "tests/cuda/ptx/attach.h"

struct CUmemPoolHandle_st {
  int gpu = 0;
};

namespace hetpipe::cuda::stand_in {
namespace {

constexpr std::align_val_t kAlignment{256};  // what CUDA promises
constexpr int kHost = -1;

struct Block {
  std::size_t bytes = 0;
  int gpu = kHost;
  cudaMemPool_t pool = nullptr;
};

std::mutex mutex;
std::map<const std::byte*, Block> blocks;  // of the GPUs, and locked ones of the host
std::array<std::size_t, kGpus> used{};
// Bytes of what is there: also of blocks that were given back, until their stream has come to that.
std::map<const std::byte*, std::size_t> standing;

thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;
// As where another thread captures a stream in the mode that is usual.
cudaError_t beside_captures() {
  if (capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  return fail(cudaErrorStreamCaptureUnsupported, "another thread may be capturing a stream");
}

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "CUDA's double: %s\n", why.c_str());
  std::abort();
}

// Addresses alone, until somebody writes.
void* reserve(std::size_t bytes) {
  void* const memory = mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) die("no addresses are left");
  return memory;
}

void* take(std::size_t bytes, int gpu, cudaMemPool_t pool) {
  const std::lock_guard lock(mutex);
  if (gpu != kHost) {
    if (bytes > card().memory - used[static_cast<std::size_t>(gpu)]) return nullptr;
    used[static_cast<std::size_t>(gpu)] += bytes;
  }
  void* const memory =
      card().works || gpu == kHost ? ::operator new(bytes, kAlignment) : reserve(bytes);
  if (card().works) std::memset(memory, 0xff, bytes);
  blocks[static_cast<std::byte*>(memory)] = {bytes, gpu, pool};
  standing[static_cast<std::byte*>(memory)] = bytes;
  return memory;
}

void destroy(void* memory, std::size_t bytes, int gpu) {
  if (card().works) std::memset(memory, 0xff, bytes);
  {
    const std::lock_guard lock(mutex);
    standing.erase(static_cast<std::byte*>(memory));
  }
  if (card().works || gpu == kHost) {
    ::operator delete(memory, kAlignment);
  } else {
    munmap(memory, std::max<std::size_t>(bytes, 1));
  }
}

// No longer anybody's; its bytes are destroyed later.
Block forget(const void* memory, const char* what) {
  const std::lock_guard lock(mutex);
  const auto at = blocks.find(static_cast<const std::byte*>(memory));
  if (at == blocks.end()) die(std::string(what) + " of memory that is not allocated");
  const Block block = at->second;
  if (block.gpu != kHost) used[static_cast<std::size_t>(block.gpu)] -= block.bytes;
  blocks.erase(at);
  return block;
}

struct Place {
  Block block;
  std::size_t left = 0;  // from the address on
};
std::optional<Place> place_of(const void* memory) {
  const auto* const byte = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex);
  auto at = blocks.upper_bound(byte);
  if (at == blocks.begin()) return std::nullopt;
  --at;
  const auto offset = static_cast<std::size_t>(byte - at->first);
  if (offset >= at->second.bytes) return std::nullopt;
  return Place{at->second, at->second.bytes - offset};
}

// Own kernels may run from their PTX; they reach locked memory of the host as well.
const bool kernels_are_ptx = ptx::attach([](std::uint64_t address) -> std::optional<ptx::Region> {
  const std::lock_guard lock(mutex);
  auto at = standing.upper_bound(reinterpret_cast<const std::byte*>(address));
  if (at == standing.begin()) return std::nullopt;
  --at;
  return ptx::Region{reinterpret_cast<std::uint64_t>(at->first), at->second};
});

// Whether CUDA knows the memory; refuses what leaves its block.
bool is_known(const void* memory, std::size_t bytes) {
  const std::optional<Place> place = place_of(memory);
  if (place && place->left < bytes) {
    throw SystemError(format("%zu bytes where a block has %zu left", bytes, place->left));
  }
  return place.has_value();
}

template <class Call>
cudaError_t guarded_access(const Call& call) {
  try {
    call();
    return cudaSuccess;
  } catch (const SystemError& e) {
    return fail(cudaErrorInvalidValue, e.what());
  }
}

}  // namespace

std::size_t memory_used(int gpu) {
  const std::lock_guard lock(mutex);
  return used[static_cast<std::size_t>(gpu)];
}

void check_inside(const char* what, const void* memory, std::size_t bytes, std::size_t alignment) {
  const std::optional<Place> place = place_of(memory);
  if (!place || place->block.gpu == kHost) {
    throw SystemError(std::string(what) + " is not in a GPU's memory");
  }
  if (place->block.gpu != gpu_in_use()) throw SystemError(std::string(what) + ": another GPU's");
  if (place->left < bytes) {
    throw SystemError(
        format("%s takes %zu bytes where its block has %zu left", what, bytes, place->left));
  }
  if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0) {
    throw SystemError(format("%s lies at %p, not at a multiple of %zu", what, memory, alignment));
  }
}

void use_workspace(cudaStream_t stream, void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  check_inside("the workspace", memory, bytes, 256);
  enqueue(stream, [=] { std::memset(memory, 0xff, bytes); });
}

}  // namespace hetpipe::cuda::stand_in

using namespace hetpipe::cuda::stand_in;

extern "C" {

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (properties->location.type != cudaMemLocationTypeDevice) {
    return fail(cudaErrorInvalidValue, "a pool that is nowhere");
  }
  *pool = new CUmemPoolHandle_st{properties->location.id};
  return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  {
    const std::lock_guard lock(mutex);
    for (const auto& [memory, block] : blocks) {
      if (block.pool == pool) die("a pool goes before its memory was given back");
    }
  }
  delete pool;
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr name, void*) {
  if (name == cudaMemPoolAttrReleaseThreshold) return cudaSuccess;
  return fail(cudaErrorInvalidValue, "an attribute of pools that the double does not have");
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr name, void* value) {
  if (name != cudaMemPoolAttrReservedMemCurrent && name != cudaMemPoolAttrReservedMemHigh) {
    return fail(cudaErrorInvalidValue, "an attribute of pools that the double does not have");
  }
  const std::uint64_t bytes = memory_used(pool->gpu);
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}
cudaError_t cudaMallocFromPoolAsync(void** memory, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t) {
  *memory = take(bytes, pool->gpu, pool);
  if (*memory == nullptr) return fail(cudaErrorMemoryAllocation, "out of memory");
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  const Block block = forget(memory, "cudaFreeAsync");
  int before = 0;  // any GPU may be in use
  cudaGetDevice(&before);
  cudaSetDevice(block.gpu);
  const cudaError_t status = guarded_access([&] {
    if (!card().works) return destroy(memory, block.bytes, block.gpu);
    enqueue(stream, [memory, block] { destroy(memory, block.bytes, block.gpu); });
  });
  cudaSetDevice(before);
  return status;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(capture_mode, *mode);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const cudaError_t status = beside_captures(); status != cudaSuccess) return status;
  if (const cudaError_t status = wait_for_all_work("cudaMalloc"); status != cudaSuccess) {
    return status;
  }
  *memory = take(bytes, gpu_in_use(), nullptr);
  if (*memory == nullptr) return fail(cudaErrorMemoryAllocation, "out of memory");
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const Block block = forget(memory, "cudaFree");
  destroy(memory, block.bytes, block.gpu);
  return cudaSuccess;
}
// All are of one process, in which CUDA opens no handles.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  if (std::getenv("HETPIPE_DOUBLE_NO_IPC") != nullptr) {
    return fail(cudaErrorInvalidValue, "memory is not shared between processes here");
  }
  return guarded_access([&] {
    check_inside("cudaIpcGetMemHandle", memory, 1, 1);
    *handle = {};
  });
}
cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return fail(cudaErrorInvalidValue, "a handle of this process's own memory");
}
cudaError_t cudaIpcCloseMemHandle(void*) { return cudaSuccess; }

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
  if (const cudaError_t status = beside_captures(); status != cudaSuccess) return status;
  const std::string what = hetpipe::format("cudaHostAlloc of %zu bytes", bytes);
  if (const cudaError_t status = wait_for_all_work(what); status != cudaSuccess) return status;
  *memory = take(bytes, kHost, nullptr);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  const Block block = forget(memory, "cudaFreeHost");
  destroy(memory, block.bytes, block.gpu);
  return cudaSuccess;
}

// The default stream runs at once.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  return guarded_access([&] {
    is_known(from, bytes);
    is_known(to, bytes);
    std::memmove(to, from, bytes);
  });
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  return guarded_access([&] {
    check_inside("cudaMemset", memory, bytes, 1);
    if (card().works) std::memset(memory, value, bytes);
  });
}
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream) {
  return guarded_access([&] {
    if (bytes == 0) return;
    check_inside("cudaMemsetAsync", memory, bytes, 1);
    count(Counted::copy);
    enqueue(stream, [=] { std::memset(memory, value, bytes); });
  });
}
cudaError_t cudaMemset2DAsync(void* memory, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  return guarded_access([&] {
    if (width == 0 || height == 0) return;
    if (width > pitch) throw hetpipe::SystemError("cudaMemset2DAsync: rows that overlap");
    check_inside("cudaMemset2DAsync", memory, (height - 1) * pitch + width, 1);
    count(Counted::copy);
    enqueue(stream, [=] {
      for (std::size_t row = 0; row < height; ++row) {
        std::memset(static_cast<std::byte*>(memory) + row * pitch, value, width);
      }
    });
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return guarded_access([&] {
    if (bytes == 0) return;
    count(Counted::copy);
    const bool from_known = is_known(from, bytes), to_known = is_known(to, bytes);
    if (from_known || !card().works) {
      enqueue(stream, [=] { std::memmove(to, from, bytes); });
    } else {
      const auto* const first = static_cast<const std::byte*>(from);
      auto copy = std::make_shared<std::vector<std::byte>>(first, first + bytes);
      enqueue(stream, [=] { std::memcpy(to, copy->data(), copy->size()); });
    }
    if (!to_known && cudaStreamSynchronize(stream) != cudaSuccess) {
      throw hetpipe::SystemError(cudaGetErrorString(cudaGetLastError()));
    }
  });
}

}  // extern "C"
