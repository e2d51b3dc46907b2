// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "launch/doctor/versions.h"
#include "launch/probe/facts.h"

namespace hetpipe {

// The facts about a rank of `hetpipe doctor`, before any rank has sent another a message.
struct DoctorFacts {
  ProbeFacts machine;
  std::string launcher;   // of Launched::by; empty: started by hand
  bool recovers = false;  // launcher_recovers()
  int started = 1;        // ranks, according to the launcher
  int world = 1;          // ranks, according to MPI
  Versions versions;
};
constexpr auto fields_of(Type<DoctorFacts>) {
  return fields<&DoctorFacts::machine, &DoctorFacts::launcher, &DoctorFacts::recovers,
                &DoctorFacts::started, &DoctorFacts::world, &DoctorFacts::versions>;
}

// world, mpi: what MPI says; mpi is empty where it was not started. Leaves the configuration out.
DoctorFacts doctor_facts_here(LookForCards look, int world, const std::string& mpi);

// "rank 1 on n1"
std::string name_of_rank(const std::vector<DoctorFacts>& facts, int rank);
std::vector<RankFacts> ranks_of(const std::vector<DoctorFacts>& facts);
// "0-3,6", as Slurm and Linux write cores.
std::string listed_cores(const std::vector<int>& cores);

}  // namespace hetpipe
