// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/transport/mpi.h"

namespace hetpipe {

// Collective over MPI_COMM_WORLD, whose rank and size these are.
std::unique_ptr<Transport> make_mpi_transport(Rank rank, int ranks, const MpiOptions& options);

}  // namespace hetpipe
