// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/module.h"
#include "kernels/memory_account.h"
#include "kernels/peer_memory.h"

namespace hetpipe::cuda {

// All that this process sees, by CUDA's numbers. SystemError with the driver's reason where it does
// not answer; none is no failure.
std::vector<GpuInfo> find_gpus();

// A GPU as a Device. UserError for a precision that the card does not have.
std::unique_ptr<Device> make_cuda_device(const GpuOptions& options);

// The GPU of such a device, as CUDA counts the visible ones.
int index_of(const Device& device);

// CUDA's memory handles between processes. Blocks come from cudaMalloc: memory of a pool has none.
std::unique_ptr<PeerMemory> make_cuda_peer_memory(int device, MemoryAccount& account);

}  // namespace hetpipe::cuda
