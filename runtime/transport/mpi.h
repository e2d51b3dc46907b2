// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/transport/transport.h"

// The only door to MPI.
namespace hetpipe {

// Owns MPI_Init_thread and MPI_Finalize (both under a watchdog that names them) and lives in main.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  Rank rank() const;
  int ranks() const;
  std::string library() const;  // "Open MPI v4.1.4"
  std::unique_ptr<Transport> make_transport();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hetpipe
