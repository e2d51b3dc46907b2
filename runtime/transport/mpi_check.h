// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

#include "runtime/transport/stamps.h"

// MPI's return codes as SystemError. They come back only where MPI_ERRORS_RETURN was set.
namespace hetpipe {

// SystemError "MPI_Isend (rank 0 -> rank 1, channel push): <MPI's text>" unless code is
// MPI_SUCCESS.
void check_mpi(int code, const char* function, const Route& route);
void check_mpi(int code, const char* function);
std::string mpi_error_text(int code);

}  // namespace hetpipe
