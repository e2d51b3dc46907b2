// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/transport/mpi.h"

namespace hetpipe {

// Called by all ranks of MPI_COMM_WORLD together, whose rank and size these are.
std::unique_ptr<Transport> make_mpi_transport(Rank rank, int ranks, const MpiOptions& options);

}  // namespace hetpipe
