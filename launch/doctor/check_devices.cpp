// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "base/host_name.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/doctor/checks.h"
#include "partitioner/cluster/card_name.h"
#include "partitioner/cluster/device_type.h"

namespace hetpipe {
namespace {

// The cards that ranks of this host see, each once.
std::vector<GpuInfo> cards_of(const std::string& host, const std::vector<DoctorFacts>& facts) {
  std::vector<GpuInfo> cards;
  std::set<std::string> known;
  for (const DoctorFacts& rank : facts) {
    if (short_name(rank.machine.rank.host) != short_name(host)) continue;
    for (const SeenCard& card : rank.machine.cards) {
      if (known.insert(card.gpu.uuid).second) cards.push_back(card.gpu);
    }
  }
  return cards;
}

std::string listed(const std::vector<GpuInfo>& cards) {
  if (cards.empty()) return "no GPU";
  std::map<std::string, int> counts;
  for (const GpuInfo& card : cards) ++counts[card.name];
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) texts.push_back(format("%d x %s", count, name.c_str()));
  return join(texts, ", ");
}

// Of these cards, how many may be devices of this kind. Schedulers say no more of a type than sites
// care to ("a100", of any memory; "fast"; nothing): one that stands in a card's name means it, and
// one that nobody knows may mean any.
std::int64_t cards_of_kind(const DeviceKind& kind, const std::vector<GpuInfo>& cards,
                           bool by_scheduler) {
  const CatalogueEntry* meant = find_in_catalogue(kind.name);
  const std::string type = normal_device_type(kind.name);
  return std::count_if(cards.begin(), cards.end(), [&](const GpuInfo& card) {
    if (meant != nullptr && find_card(card.name) == meant) return true;
    return by_scheduler &&
           (meant == nullptr || normal_device_type(card.name).find(type) != std::string::npos);
  });
}

// A node with more devices of a kind than its ranks see cards.
void compare_node(const Node& node, const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                  Check& check) {
  const bool by_scheduler = run.from_allocation && !run.from_pool;
  const std::vector<GpuInfo> cards = cards_of(node.name, facts);
  std::map<int, int> wanted;
  for (const int kind : node.kinds) ++wanted[kind];
  for (const auto& [k, count] : wanted) {
    const DeviceKind& kind = run.job.cluster->kinds[at(k)];
    const bool known = find_in_catalogue(kind.name) != nullptr;
    if (kind.emulate || !(known || by_scheduler)) continue;
    const std::size_t all = known ? 0 : node.kinds.size();
    if (cards_of_kind(kind, cards, by_scheduler) >= std::int64_t{count} * kind.gpus &&
        cards.size() >= all) {
      continue;
    }
    check.findings.push_back(
        {Severity::mistake, node.name,
         format("has %d device%s of type %s in %s", count, count == 1 ? "" : "s",
                kind.name.empty() ? "gpu" : kind.name.c_str(), run.files.c_str()),
         "its ranks see " + listed(cards),
         "Request such GPUs for the job (--gres, --gpus-per-task), or measure "
         "what is there: hetpipe probe."});
  }
}

// Kinds that stand for a card, with ranks that see none.
void note_workers_without_card(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                               const Roles& roles, const std::vector<FoundDevice>& devices,
                               Check& check) {
  std::map<std::string, std::vector<std::size_t>> without;  // by kind
  for (std::size_t r = 0; r < roles.of_rank.size(); ++r) {
    if (!roles.of_rank[r].worker || !devices[r].failure.empty()) continue;
    const DeviceKind& kind = run.job.cluster->kind_of(roles.of_rank[r].worker->device);
    if (kind.emulate || find_in_catalogue(kind.name) == nullptr) continue;
    if (devices[r].device.card.empty()) without[kind.name].push_back(r);
  }
  for (const auto& [kind, ranks] : without) {
    const std::string& why = facts[ranks.front()].machine.why_no_card;
    check.findings.push_back(
        {Severity::mistake, named(ranks, ranks_of(facts)),
         format("no GPU for %s of type %s", ranks.size() == 1 ? "a device" : "devices",
                kind.c_str()),
         why.empty() ? "it would compute on the CPU" : why,
         "Request such GPUs for the job (--gres, --gpus-per-task), or plan for the hosts that are "
         "available: hetpipe probe."});
  }
}

void note_shared_cards(const std::vector<DoctorFacts>& facts,
                       const std::vector<FoundDevice>& devices, Check& check) {
  std::map<std::string, std::vector<std::size_t>> ranks_on;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!devices[r].device.uuid.empty()) ranks_on[devices[r].device.uuid].push_back(r);
  }
  for (const auto& [uuid, ranks] : ranks_on) {
    if (ranks.size() == 1) continue;
    check.findings.push_back({Severity::mistake, named(ranks, ranks_of(facts)),
                              "would share one " + devices[ranks.front()].device.card,
                              "the plan has a device for each of them",
                              "Start as many ranks on a host as it has GPUs, each with its own GPU "
                              "(--gpus-per-task=1)."});
  }
}

}  // namespace

Check check_devices(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                    const std::optional<Roles>& roles, const std::vector<FoundDevice>& devices) {
  Check check{"devices", ""};
  std::vector<GpuInfo> all;
  std::set<std::string> hosts;
  for (const DoctorFacts& rank : facts) {
    if (!hosts.insert(short_name(rank.machine.rank.host)).second) continue;
    const auto here = cards_of(rank.machine.rank.host, facts);
    all.insert(all.end(), here.begin(), here.end());
  }
  check.seen = listed(all);
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (devices[r].failure.empty()) continue;
    check.findings.push_back({Severity::failure, name_of_rank(facts, static_cast<int>(r)),
                              devices[r].failure, "requested with --device",
                              "Repair the driver there, or compute on the CPU: --device auto."});
  }
  if (!run.job.cluster || run.job.cluster->emulated()) return check;
  if (!roles) {
    if (!run.problems.empty() || run.job.device == "cpu") return check;
    for (const Node& node : run.job.cluster->nodes) {
      if (std::any_of(facts.begin(), facts.end(), [&](const DoctorFacts& rank) {
            return short_name(rank.machine.rank.host) == short_name(node.name);
          })) {
        compare_node(node, run, facts, check);
      }
    }
    return check;
  }
  note_workers_without_card(run, facts, *roles, devices, check);
  std::vector<RankDevice> of_ranks;
  for (const FoundDevice& found : devices) of_ranks.push_back(found.device);
  const std::string others = cards_of_other_kinds(run.job, *roles, of_ranks);
  for (const std::string& line : split(others, '\n')) {
    if (!line.empty()) check.findings.push_back(finding_from(Severity::mistake, {"", line}));
  }
  note_shared_cards(facts, devices, check);
  return check;
}

}  // namespace hetpipe
