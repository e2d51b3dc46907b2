// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi.h"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "runtime/transport/mpi_parts.h"
#include "runtime/transport/mpi_watchdog.h"

namespace hetpipe {
namespace {

constexpr int kSystemFailure = static_cast<int>(ExitCode::system);

// Before MPI_Init_thread returns, only the launcher's variables know the rank.
std::string rank_from_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return "rank " + std::string(value);
  }
  return "a rank";
}

std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) {
    return "MPI error " + std::to_string(code);
  }
  return {text, static_cast<std::size_t>(length)};
}

}  // namespace

struct MpiSession::State {
  Rank rank;
  int ranks = 0;
  double watchdog_seconds = 0;
  std::string name() const { return format("rank %d", rank.value); }
};

MpiSession::MpiSession(int* argc, char*** argv, double watchdog_seconds)
    : state_(std::make_unique<State>()) {
  state_->watchdog_seconds = watchdog_seconds;
  int given = MPI_THREAD_SINGLE;
  {
    const Watchdog watchdog(rank_from_launcher() + ": MPI_Init_thread", watchdog_seconds,
                            kSystemFailure);
    check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &given), "MPI_Init_thread");
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (given < MPI_THREAD_FUNNELED) {
    throw SystemError(library() +
                      " offers no MPI_THREAD_FUNNELED (needed: ranks have threads of "
                      "their own). Use an MPI library built with threads.");
  }
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &state_->rank.value), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &state_->ranks), "MPI_Comm_size");
}

MpiSession::~MpiSession() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  const Watchdog watchdog(state_->name() + ": MPI_Finalize", state_->watchdog_seconds,
                          kSystemFailure);
  const int code = MPI_Finalize();
  if (code != MPI_SUCCESS) std::fprintf(stderr, "warning: MPI_Finalize failed with %d\n", code);
}

Rank MpiSession::rank() const { return state_->rank; }
int MpiSession::ranks() const { return state_->ranks; }

std::string MpiSession::library() const {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length), "MPI_Get_library_version");
  std::string name(text, static_cast<std::size_t>(length));
  name = name.substr(0, name.find_first_of(",\n"));
  std::replace(name.begin(), name.end(), '\t', ' ');
  return name;
}

bool MpiSession::reaches_gpus() const {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

std::unique_ptr<Transport> MpiSession::make_transport(const MpiOptions& options) {
  const Watchdog watchdog(state_->name() + ": MPI_Comm_dup", state_->watchdog_seconds,
                          kSystemFailure);
  return make_mpi_transport(state_->rank, state_->ranks, options);
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
