// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/facts.h"

#include "base/index.h"
#include "base/text.h"
#include "launch/launcher/launched.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {

DoctorFacts doctor_facts_here(LookForCards look, int world, const std::string& mpi) {
  DoctorFacts facts;
  facts.machine = probe_facts_here(look);
  facts.world = world;
  if (const auto here = launched()) {
    facts.launcher = here->by;
    facts.started = here->ranks;
  }
  facts.recovers = launcher_recovers();
  // Before versions are reported: a run with cards loads it.
  if (!facts.machine.cards.empty()) load_nccl();
  facts.versions = versions_here(mpi);
  return facts;
}

std::string name_of_rank(const std::vector<DoctorFacts>& facts, int rank) {
  return format("rank %d on %s", rank, facts[at(rank)].machine.rank.host.c_str());
}

std::vector<RankFacts> ranks_of(const std::vector<DoctorFacts>& facts) {
  std::vector<RankFacts> ranks;
  for (const DoctorFacts& rank : facts) ranks.push_back(rank.machine.rank);
  return ranks;
}

std::string listed_cores(const std::vector<int>& cores) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    parts.push_back(first == last ? std::to_string(cores[first])
                                  : format("%d-%d", cores[first], cores[last]));
    first = last + 1;
  }
  return join(parts, ",");
}

}  // namespace hetpipe
