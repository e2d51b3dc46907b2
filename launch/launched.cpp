// SPDX-License-Identifier: Apache-2.0
#include "launch/launched.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

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
  return std::nullopt;
}

bool speaks_for_all() {
  const auto here = launched();
  return !here || here->rank == 0;
}

}  // namespace hetpipe
