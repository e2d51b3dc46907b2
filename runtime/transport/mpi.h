// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/transport/transport.h"

// The only door to MPI.
namespace hetpipe {

// How the ranks of a transport meet, at its start and in exchange(). By collectives of
// MPI, which take any way between ranks that they like; or through the launcher and without a
// message between ranks, for links that have not been tried yet: then all channels share
// MPI_COMM_WORLD, so that a session has one such transport in its life.
enum class MeetBy { mpi, launcher };

struct MpiOptions {
  std::uint64_t piece_bytes = std::uint64_t{512}
                              << 20;  // longer payloads are split; counts of MPI are 32-bit
  double exchange_seconds = 300;      // until exchange() gives up
  MeetBy meet_by = MeetBy::mpi;
};

// Owns MPI_Init_thread and MPI_Finalize (both under a watchdog that names them and ends the process
// with exit code 3) and lives in main. The one thread that made it makes all calls. Transports must
// be gone before it goes.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv, double watchdog_seconds = 60);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  Rank rank() const;
  int ranks() const;
  std::string library() const;  // "Open MPI v4.1.4"
  // Whether the library reports that it takes addresses of GPU memory (MPIX's query).
  bool reaches_gpus() const;
  // Called by all ranks together, with the same options.
  std::unique_ptr<Transport> make_transport(const MpiOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hetpipe
