// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/memory_account.h"
#include "kernels/offload/far_memory.h"
#include "kernels/peer_memory.h"

namespace hetpipe {

// Shared memory as PeerMemory: like the rest of the device's, no host may touch it.
std::unique_ptr<PeerMemory> make_far_peer_memory(FarMemory& memory, MemoryAccount& account);

}  // namespace hetpipe
