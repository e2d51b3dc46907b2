// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/transport/transport.h"

namespace hetpipe {

// All ranks add up random arrays over random groups, several at a time, and compare with the serial
// sum, bit for bit. The same code runs on threads and under mpirun.
void play_exchange(Transport& transport, std::uint64_t seed);

}  // namespace hetpipe
