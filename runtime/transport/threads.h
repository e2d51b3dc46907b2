// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "runtime/transport/link_emulation.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Ranks as threads of one process: one Transport per rank, sharing mailboxes. Each is used by one
// thread.
std::vector<std::unique_ptr<Transport>> make_threads_transports(int ranks);

}  // namespace hetpipe
