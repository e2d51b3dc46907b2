// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/memory_account.h"
#include "kernels/peer_memory.h"

namespace hetpipe::cuda {

// CUDA's memory handles between processes. Blocks come from cudaMalloc: memory of a pool has none.
std::unique_ptr<PeerMemory> make_cuda_peer_memory(int device, MemoryAccount& account);

}  // namespace hetpipe::cuda
