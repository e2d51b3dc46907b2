// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "runtime/transport/mpi.h"
#include "runtime/transport/stamps.h"

// What the sources behind mpi.h share.
namespace hetpipe {

// Called by all ranks of MPI_COMM_WORLD together, whose rank and size these are.
std::unique_ptr<Transport> make_mpi_transport(Rank rank, int ranks, const MpiOptions& options);

// MPI's return codes, which come back only where MPI_ERRORS_RETURN was set: SystemError "MPI_Isend
// (rank 0 -> rank 1, channel push): <MPI's text>" unless code is MPI_SUCCESS.
void check_mpi(int code, const char* function, const Route& route);
void check_mpi(int code, const char* function);

}  // namespace hetpipe
