// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

// What the launcher's environment says about this process, before (and without) MPI: enough
// to let one rank report for all, and to detect a launch whose MPI does not see its neighbours.
namespace hetpipe {

struct Launched {
  int rank = 0;
  int ranks = 1;
  std::string by;  // "mpirun", "srun" or "mpiexec of another MPI"
};

// Nothing if the process was started by hand. mpirun is checked first: inside a Slurm job its ranks
// see the SLURM_PROCID of mpirun's daemon. srun is known by SLURM_STEP_NUM_TASKS, which a batch
// script does not have; MPICH and its relatives by PMI_RANK.
std::optional<Launched> launched();

// Whether mpirun was called with --enable-recovery: it lets the other ranks run when one is lost,
// and returns 0 for one that was killed.
bool launcher_recovers();
extern const char* const kRecoversText;  // what (why). remedy

// Before MPI starts, which would end the process with its own message: srun started this process
// without PMIx, which Open MPI needs to find its neighbours. UserError with the correct line for
// `command`.
void check_launcher(const std::string& command);

// After it: MPI sees as many ranks as the launcher started. `library`: of MPI.
void check_world(int ranks, const std::string& library, const std::string& command);

// The first rank, or a process started by hand: prints what is the same on all ranks.
bool speaks_for_all();

}  // namespace hetpipe
