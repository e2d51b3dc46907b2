// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/pool.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/cluster/card_name.h"

namespace hetpipe {
namespace {

// Memory of cards of one name differs by some MB with the driver's mood, by GB between variants.
std::int64_t gibibytes(std::size_t bytes) {
  return std::llround(static_cast<double>(bytes) / (1 << 30));
}

std::string listed(const std::vector<int>& ranks) {
  std::vector<std::string> words;
  for (const int rank : ranks) words.push_back(std::to_string(rank));
  return (ranks.size() == 1 ? "rank " : "ranks ") + join(words, ", ");
}

class PoolMaker {
 public:
  explicit PoolMaker(const std::vector<ProbeFacts>& facts) : facts_(facts) {
    for (const ProbeFacts& of : facts) {
      const int rank = static_cast<int>(pool_.places.size());
      pool_.places.push_back({.node = node_of(of.rank.host)});
      pool_.nodes[at(pool_.places.back().node)].ranks.push_back(rank);
    }
  }

  Pool with_cards() {
    pool_.cards = true;
    for (int r = 0; r < static_cast<int>(facts_.size()); ++r) add_cards(r);
    for (PoolNode& node : pool_.nodes) place_ranks(node);
    for (int k = 0; k < static_cast<int>(pool_.kinds.size()); ++k) choose_measurer(k);
    note_free_memory();
    note_nobodys_own();
    note_nodes_without();
    return std::move(pool_);
  }

  Pool with_processors() {
    std::map<std::string, int> ranks_of_machine;
    for (const ProbeFacts& of : facts_) ++ranks_of_machine[of.rank.boot];
    for (int r = 0; r < static_cast<int>(facts_.size()); ++r) {
      const ProbeFacts& of = facts_[at(r)];
      const std::int64_t share = of.rank.memory / ranks_of_machine[of.rank.boot];
      const int kind = processor_kind(of, r, share);
      PoolNode& node = pool_.nodes[at(pool_.places[at(r)].node)];
      pool_.places[at(r)].device = static_cast<int>(node.devices.size());
      node.devices.push_back({.kind = kind, .card = {}, .ranks = {r}});
    }
    return std::move(pool_);
  }

 private:
  int node_of(const std::string& host) {
    const auto found = std::find_if(pool_.nodes.begin(), pool_.nodes.end(),
                                    [&](const PoolNode& node) { return node.name == host; });
    if (found != pool_.nodes.end()) return static_cast<int>(found - pool_.nodes.begin());
    pool_.nodes.push_back({.name = host, .devices = {}, .ranks = {}});
    return static_cast<int>(pool_.nodes.size()) - 1;
  }

  void add_cards(int rank) {
    const int own = pool_.places[at(rank)].node;
    for (const SeenCard& card : facts_[at(rank)].cards) {
      PoolDevice* known = nullptr;
      int node = own;
      for (int n = 0; known == nullptr && n < static_cast<int>(pool_.nodes.size()); ++n) {
        for (PoolDevice& device : pool_.nodes[at(n)].devices) {
          if (device.card.gpu.uuid == card.gpu.uuid) known = &device, node = n;
        }
      }
      if (known == nullptr) {
        pool_.nodes[at(own)].devices.push_back(
            {.kind = card_kind(card.gpu, rank), .card = card, .ranks = {rank}});
        continue;
      }
      if (node != own && elsewhere_.insert({card.gpu.uuid, own}).second) {
        pool_.notes.push_back(
            format("%s sees %s of %s too (one machine under two names): it is "
                   "counted only there",
                   pool_.nodes[at(own)].name.c_str(), card.gpu.uuid.c_str(),
                   pool_.nodes[at(node)].name.c_str()));
      }
      known->ranks.push_back(rank);
      // Every rank that looks takes some of it: the first to look saw what there is.
      GpuInfo& gpu = known->card.gpu;
      gpu.free_memory = std::max(gpu.free_memory, card.gpu.free_memory);
    }
  }

  int card_kind(const GpuInfo& gpu, int rank) {
    PoolKind kind;
    kind.name = kind_of_card(gpu.name);
    const std::pair key(kind.name, gibibytes(gpu.memory));
    const auto known = card_kinds_.find(key);
    if (known != card_kinds_.end()) return known->second;
    const auto taken = [&](const std::string& name) {
      return std::any_of(pool_.kinds.begin(), pool_.kinds.end(),
                         [&](const PoolKind& other) { return other.name == name; });
    };
    if (taken(kind.name)) {
      kind.name += format("-%lldgb", static_cast<long long>(gibibytes(gpu.memory)));
    }
    kind.hardware = gpu.name;
    if (const CatalogueEntry* entry = find_card(gpu.name)) kind.catalogue = entry->name;
    kind.memory_bandwidth = gpu.memory_bandwidth;
    kind.usual = usual_precision(gpu);
    kind.measured_by = rank;
    kind.gpu = gpu.index;
    pool_.kinds.push_back(std::move(kind));
    return card_kinds_[key] = static_cast<int>(pool_.kinds.size()) - 1;
  }

  int processor_kind(const ProbeFacts& of, int rank, std::int64_t share) {
    for (std::size_t k = 0; k < pool_.kinds.size(); ++k) {
      PoolKind& kind = pool_.kinds[k];
      if (kind.hardware != of.processor) continue;
      kind.memory = std::min(kind.memory, share);
      kind.memory_whole = std::min(kind.memory_whole, of.rank.memory);
      return static_cast<int>(k);
    }
    PoolKind kind;
    kind.name = "cpu";
    if (!pool_.kinds.empty()) {
      kind.name += "-" + (of.processor.empty() ? "unnamed" : slug_of(of.processor));
    }
    kind.hardware = of.processor;
    kind.memory = share;
    kind.memory_whole = of.rank.memory;
    kind.measured_by = rank;
    pool_.kinds.push_back(std::move(kind));
    return static_cast<int>(pool_.kinds.size()) - 1;
  }

  void place_ranks(const PoolNode& node) {
    std::set<std::string> taken;
    for (std::size_t k = 0; k < node.ranks.size(); ++k) {
      const std::vector<SeenCard>& seen = facts_[at(node.ranks[k])].cards;
      if (seen.empty()) continue;
      auto own = std::find_if(seen.begin(), seen.end(),
                              [&](const SeenCard& card) { return !taken.contains(card.gpu.uuid); });
      PoolPlace& place = pool_.places[at(node.ranks[k])];
      place.shared = own == seen.end();
      if (place.shared) own = seen.begin() + static_cast<std::ptrdiff_t>(k % seen.size());
      taken.insert(own->gpu.uuid);
      for (std::size_t d = 0; d < node.devices.size(); ++d) {
        if (node.devices[d].card.gpu.uuid != own->gpu.uuid) continue;
        place.device = static_cast<int>(d);
        place.gpu = own->gpu.index;
        if (place.shared) {
          pool_.notes.push_back(format("rank %d on %s has no card of its own: it shares %s:%zu",
                                       node.ranks[k], node.name.c_str(), node.name.c_str(), d));
        }
      }
    }
  }

  // A rank that has such a card for its own, rather than one that merely sees it.
  void choose_measurer(int kind) {
    for (std::size_t r = 0; r < pool_.places.size(); ++r) {
      const PoolPlace& place = pool_.places[r];
      if (place.shared || pool_.kind_of(static_cast<int>(r)) != kind) continue;
      pool_.kinds[at(kind)].measured_by = static_cast<int>(r);
      pool_.kinds[at(kind)].gpu = place.gpu;
      return;
    }
  }

  void note_free_memory() {
    constexpr double kOthers = 0.9;  // below: more is taken than driver and libraries take
    for (const PoolNode& node : pool_.nodes) {
      for (std::size_t d = 0; d < node.devices.size(); ++d) {
        const GpuInfo& gpu = node.devices[d].card.gpu;
        PoolKind& kind = pool_.kinds[at(node.devices[d].kind)];
        const auto free = static_cast<std::int64_t>(gpu.free_memory);
        if (kind.memory == 0 || free < kind.memory) {
          kind.memory = free;
          kind.memory_whole = static_cast<std::int64_t>(gpu.memory);
        }
        if (static_cast<double>(free) >= kOthers * static_cast<double>(gpu.memory)) continue;
        pool_.notes.push_back(format("%s:%zu has %s free of %s (other programs use it)",
                                     node.name.c_str(), d,
                                     format_bytes(static_cast<double>(free)).c_str(),
                                     format_bytes(static_cast<double>(gpu.memory)).c_str()));
      }
    }
  }

  // What one rank on a node cannot measure: links between its cards.
  void note_nobodys_own() {
    std::vector<std::string> nobodys;
    for (std::size_t n = 0; n < pool_.nodes.size(); ++n) {
      for (std::size_t d = 0; d < pool_.nodes[n].devices.size(); ++d) {
        const auto owns = [&](const PoolPlace& place) {
          return at(place.node) == n && place.device == static_cast<int>(d);
        };
        if (std::any_of(pool_.places.begin(), pool_.places.end(), owns)) continue;
        nobodys.push_back(format("%s:%zu", pool_.nodes[n].name.c_str(), d));
      }
    }
    if (nobodys.empty()) return;
    pool_.notes.push_back("no rank has " + join(nobodys, ", ") +
                          " to itself, so its links are not measured: start one rank for each "
                          "card");
  }

  void note_nodes_without() {
    for (const PoolNode& node : pool_.nodes) {
      if (!node.devices.empty()) continue;
      const std::string& why = facts_[at(node.ranks.front())].why_no_card;
      pool_.notes.push_back(format("%s (%s) has no card of its own%s: it can be a parameter server",
                                   node.name.c_str(), listed(node.ranks).c_str(),
                                   why.empty() ? "" : (" (" + why + ")").c_str()));
    }
  }

  const std::vector<ProbeFacts>& facts_;
  Pool pool_;
  std::map<std::pair<std::string, std::int64_t>, int> card_kinds_;
  std::set<std::pair<std::string, int>> elsewhere_;
};

// Each reason once, with the hosts that have it.
std::string why_no_cards(const std::vector<ProbeFacts>& facts) {
  std::map<std::string, std::set<std::string>> hosts_of;
  for (const ProbeFacts& of : facts) hosts_of[of.why_no_card].insert(of.rank.host);
  std::vector<std::string> reasons;
  for (const auto& [why, hosts] : hosts_of) {
    reasons.push_back(join(std::vector<std::string>(hosts.begin(), hosts.end()), ", ") + ": " +
                      why);
  }
  return join(reasons, "; ");
}

}  // namespace

int Pool::kind_of(int rank) const {
  const PoolPlace& place = places[at(rank)];
  return place.device < 0 ? -1 : nodes[at(place.node)].devices[at(place.device)].kind;
}

Pool decide_pool(const std::vector<ProbeFacts>& facts, ProbeFor what) {
  const bool any = std::any_of(facts.begin(), facts.end(),
                               [](const ProbeFacts& of) { return !of.cards.empty(); });
  if (what == ProbeFor::cards && !any) {
    throw SystemError("device cuda: no rank sees a GPU. " + why_no_cards(facts));
  }
  if (any && what != ProbeFor::processors) return PoolMaker(facts).with_cards();
  Pool pool = PoolMaker(facts).with_processors();
  if (what == ProbeFor::whatever_there_is) {
    pool.notes.push_back("no GPU, so the CPUs are used. " + why_no_cards(facts));
  }
  return pool;
}

std::vector<LinkTest> decide_link_tests(const Pool& pool) {
  // Ranks with a device of their own go first: two on one device have no link between devices.
  std::map<std::pair<int, int>, std::vector<int>> classes;
  for (const bool shared : {false, true}) {
    for (int r = 0; r < static_cast<int>(pool.places.size()); ++r) {
      const PoolPlace& place = pool.places[at(r)];
      if (place.shared == shared) classes[{place.node, pool.kind_of(r)}].push_back(r);
    }
  }
  std::vector<LinkTest> tests;
  bool inside = false;
  for (auto a = classes.begin(); a != classes.end(); ++a) {
    for (auto b = a; b != classes.end(); ++b) {
      const bool same_node = a->first.first == b->first.first;
      // Inside a node a rank without a device has no link that a plan could use.
      if (same_node && (a->first.second < 0 || b->first.second < 0)) continue;
      if (a == b && a->second.size() < 2) continue;
      tests.push_back({a->second.front(), a == b ? a->second[1] : b->second.front()});
      inside = inside || same_node;
    }
  }
  if (inside) return tests;
  std::set<int> kinds;
  for (int r = 0; r < static_cast<int>(pool.places.size()); ++r) {
    const int kind = pool.kind_of(r);
    if (kind >= 0 && kinds.insert(kind).second) tests.push_back({r, r});
  }
  return tests;
}

}  // namespace hetpipe
