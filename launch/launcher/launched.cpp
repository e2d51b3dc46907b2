// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/launched.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::optional<int> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  return error == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<Launched> launched() {
  const auto open_mpi_rank = number("OMPI_COMM_WORLD_RANK");
  const auto open_mpi_ranks = number("OMPI_COMM_WORLD_SIZE");
  if (open_mpi_rank && open_mpi_ranks) return Launched{*open_mpi_rank, *open_mpi_ranks, "mpirun"};
  const auto slurm_rank = number("SLURM_PROCID");
  const auto slurm_ranks = number("SLURM_STEP_NUM_TASKS");
  if (slurm_rank && slurm_ranks) return Launched{*slurm_rank, *slurm_ranks, "srun"};
  const auto other_rank = number("PMI_RANK");
  const auto other_ranks = number("PMI_SIZE");
  if (other_rank && other_ranks) {
    return Launched{*other_rank, *other_ranks, "mpiexec of another MPI"};
  }
  return std::nullopt;
}

bool launcher_recovers() {
  const char* value = std::getenv("OMPI_MCA_orte_enable_recovery");
  return value != nullptr && std::string(value) != "0" && std::string(value) != "false";
}

const char* const kRecoversText =
    "mpirun --enable-recovery returns 0 even if a rank was killed (Open MPI then takes the loss of "
    "ranks for the program's own business). Leave it out where a script looks at the exit code; "
    "train.log says how the run ended in any case.";

void check_launcher(const std::string& command) {
  const auto here = launched();
  if (!here || here->by != "srun" || std::getenv("PMIX_RANK") != nullptr) return;
  throw UserError("",
                  format("srun started %d rank%s without PMIx (which the ranks of Open MPI need to "
                         "find each other). Start them with\n  srun --mpi=pmix -K -n %d %s",
                         here->ranks, here->ranks == 1 ? "" : "s", here->ranks, command.c_str()));
}

void check_world(int ranks, const std::string& library, const std::string& command) {
  const auto here = launched();
  if (!here || here->ranks == ranks) return;
  throw UserError("", format("%s started %d ranks, and MPI sees %d (they do not share one MPI "
                             "world: this program was built with %s). Start them with its own "
                             "launcher, or with PMIx:\n  mpirun -np %d %s\n  srun --mpi=pmix -K -n "
                             "%d %s",
                             here->by.c_str(), here->ranks, ranks, library.c_str(), here->ranks,
                             command.c_str(), here->ranks, command.c_str()));
}

bool speaks_for_all() {
  const auto here = launched();
  return !here || here->rank == 0;
}

}  // namespace hetpipe
