// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi_check.h"

#include "base/error.h"

namespace hetpipe {

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
    return "MPI error " + std::to_string(code);
  }
  return {text, static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* function) {
  if (code == MPI_SUCCESS) return;
  throw SystemError(std::string(function) + ": " + mpi_error_text(code));
}

void check_mpi(int code, const char* function, const Route& route) {
  if (code == MPI_SUCCESS) return;
  throw SystemError(std::string(function) + " (" + to_string(route) + "): " + mpi_error_text(code));
}

}  // namespace hetpipe
