// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/transport/mpi.h"

// Test programs under mpirun: every rank runs every test in the same order. Rank 0 prints as usual,
// the others only their failures; each leaves with its own result, so the launcher's exit code is
// not 0 when any rank failed.
namespace hetpipe {

MpiSession& mpi_session();  // held by main

}  // namespace hetpipe
