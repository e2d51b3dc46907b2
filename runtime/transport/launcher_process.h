// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/transport/lifeline_socket.h"

namespace hetpipe {

// The process that started this rank, where that is a launcher of ranks (or its daemon on this
// host). MPI ends a rank soon after its launcher is gone, and gives no reason.
struct LauncherProcess {
  std::string name;  // "mpirun"
  int pid = 0;
  Socket ended;  // readable once it is gone; empty on kernels before 5.3

  bool gone() const;
};
// Nothing: started by a shell, a wrapper, a test.
std::optional<LauncherProcess> launcher_process();

}  // namespace hetpipe
