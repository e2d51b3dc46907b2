// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>

#include "base/unique_handle.h"
#include "runtime/transport/stamps.h"

// MPI's return codes as SystemError. They come back only where MPI_ERRORS_RETURN was set.
namespace hetpipe {

// SystemError "MPI_Isend (rank 0 -> rank 1, channel push): <MPI's text>" unless code is
// MPI_SUCCESS.
void check_mpi(int code, const char* function, const Route& route);
void check_mpi(int code, const char* function);
std::string mpi_error_text(int code);

struct CommunicatorTraits {
  using Handle = MPI_Comm;
  static MPI_Comm empty() { return MPI_COMM_NULL; }
  static void close(MPI_Comm communicator) noexcept;
};
using UniqueCommunicator = UniqueHandle<CommunicatorTraits>;

}  // namespace hetpipe
