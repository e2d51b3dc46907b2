// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/text.h"
#include "launch/doctor/checks.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostHosts = 4;  // that are listed one by one

using RanksOn = std::map<std::string, std::vector<std::size_t>>;  // by host

std::size_t cores_of(const std::vector<std::size_t>& on, const std::vector<RankFacts>& ranks) {
  std::set<int> cores;
  for (const std::size_t r : on) cores.insert(ranks[r].cores.begin(), ranks[r].cores.end());
  return cores.size();
}

std::string seen_on(const RanksOn& ranks_on, const std::vector<RankFacts>& ranks) {
  std::vector<std::string> seen;
  for (const auto& [host, on] : ranks_on) {
    if (seen.size() == kMostHosts) {
      seen.push_back(format("%zu more hosts", ranks_on.size() - kMostHosts));
      break;
    }
    seen.push_back(format("%zu for %zu rank%s on %s", cores_of(on, ranks), on.size(),
                          on.size() == 1 ? "" : "s", host.c_str()));
  }
  return join(seen, "; ");
}

// Ranks that the launcher has bound to cores that are too few for all of them.
void note_bound_together(const std::vector<std::size_t>& on, const std::vector<RankFacts>& ranks,
                         int threads, Check& check) {
  std::map<std::vector<int>, std::vector<std::size_t>> bound;  // by their cores
  for (const std::size_t r : on) {
    const RankFacts& rank = ranks[r];
    if (static_cast<int>(rank.cores.size()) < rank.online) bound[rank.cores].push_back(r);
  }
  for (const auto& [cores, together] : bound) {
    if (together.size() == 1 || together.size() * static_cast<std::size_t>(threads) <= cores.size())
      continue;
    check.findings.push_back(
        {Severity::note, named(together, ranks),
         format("are bound to the same core%s %s", cores.size() == 1 ? "" : "s",
                listed_cores(cores).c_str()),
         "each runs slower than it would alone",
         "Give each its own cores (srun --cpus-per-task=N --cpu-bind=cores, mpirun --map-by "
         "slot:pe=N --bind-to core), or bind none (mpirun --bind-to none)."});
  }
}

// Ranks bound to cores of another NUMA node than that of their card; adds to what was seen.
void note_far_from_cards(const std::vector<DoctorFacts>& facts,
                         const std::vector<FoundDevice>& devices, Check& check) {
  struct Far {
    std::string where;
    std::vector<std::size_t> ranks{};
  };
  std::map<std::pair<std::vector<int>, std::vector<int>>, Far>
      far;  // by its cores and the near ones
  std::size_t known = 0;
  std::size_t near = 0;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const SeenCard* card = card_of_rank(facts, devices, r);
    if (card == nullptr || card->near_cores.empty()) continue;
    ++known;
    const std::vector<int>& own = facts[r].machine.rank.cores;
    const std::set<int> cores(card->near_cores.begin(), card->near_cores.end());
    if (std::any_of(own.begin(), own.end(), [&](int core) { return cores.contains(core); })) {
      ++near;
      continue;
    }
    Far& one = far[{own, card->near_cores}];
    one.where = format("NUMA node %d, cores %s", card->gpu.numa_node,
                       listed_cores(card->near_cores).c_str());
    one.ranks.push_back(r);
  }
  if (known > 0) check.seen += format("; %zu of %zu with cores near their GPU", near, known);
  for (const auto& [cores, one] : far) {
    const bool single = one.ranks.size() == 1;
    check.findings.push_back(
        {Severity::note, named(one.ranks, ranks_of(facts)),
         format("%s bound to cores %s, far from %s GPU%s (%s)", single ? "is" : "are",
                listed_cores(cores.first).c_str(), single ? "its" : "their", single ? "" : "s",
                one.where.c_str()),
         "every copy to and from the GPU crosses the link between the sockets",
         "Bind ranks near their GPUs (srun --gpus-per-task=1 --gpu-bind=closest "
         "--cpu-bind=ldoms, mpirun --map-by numa --bind-to numa), or bind none (mpirun --bind-to "
         "none)."});
  }
}

// If it is not known which of the ranks compute.
void note_shared(const RanksOn& ranks_on, const std::vector<RankFacts>& ranks, int threads,
                 Check& check) {
  for (const auto& [host, on] : ranks_on) {
    const std::size_t cores = cores_of(on, ranks);
    const std::size_t wanted = on.size() * static_cast<std::size_t>(threads);
    if (wanted <= cores) continue;
    check.findings.push_back({Severity::note, host,
                              format("%zu threads of its ranks share %zu cores", wanted, cores),
                              "each device runs slower than it would alone, unless it is emulated",
                              "Start fewer ranks there, or give the job more cores."});
  }
}

}  // namespace

const SeenCard* card_of_rank(const std::vector<DoctorFacts>& facts,
                             const std::vector<FoundDevice>& devices, std::size_t rank) {
  const std::vector<SeenCard>& cards = facts[rank].machine.cards;
  if (devices.empty()) return cards.size() == 1 ? &cards.front() : nullptr;
  const auto own = std::find_if(cards.begin(), cards.end(), [&](const SeenCard& card) {
    return !card.gpu.uuid.empty() && card.gpu.uuid == devices[rank].device.uuid;
  });
  return own == cards.end() ? nullptr : &*own;
}

Check check_cores(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                  const std::optional<Roles>& roles, const std::vector<FoundDevice>& devices,
                  int threads, const std::string& command) {
  const std::vector<RankFacts> ranks = ranks_of(facts);
  RanksOn ranks_on;
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks_on[ranks[r].host].push_back(r);
  Check check{"cores", seen_on(ranks_on, ranks)};
  if (roles) {
    try {
      check_together(ranks, *roles, run.job, command);
    } catch (const UserError& error) {
      check.findings = findings_from(Severity::mistake, error.problems());
    }
  }
  if (run.job.cluster && run.job.cluster->emulated()) return check;
  note_far_from_cards(facts, roles ? devices : std::vector<FoundDevice>{}, check);
  const std::size_t before = check.findings.size();
  for (const auto& [host, on] : ranks_on) note_bound_together(on, ranks, threads, check);
  if (check.findings.size() > before) return check;
  if (!roles) {
    note_shared(ranks_on, ranks, threads, check);
  } else if (const std::string shared = shared_cores(ranks, *roles, run.job); !shared.empty()) {
    check.findings.push_back(finding_from(
        Severity::note, {"", shared + ". Start fewer ranks there, or give the job more cores."}));
  }
  return check;
}

}  // namespace hetpipe
