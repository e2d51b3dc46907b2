// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/precision.h"
#include "launch/probe/facts.h"

// The pool that the ranks of `hetpipe probe` see: nodes, devices and device types,
// and what of it has to be measured. Plain values; nothing here measures.
namespace hetpipe {

enum class ProbeFor { whatever_there_is, cards, processors };

struct PoolKind {
  std::string name;               // its name in cluster and profile files
  std::string hardware;           // its name from its driver or Linux
  std::string catalogue;          // the row of the catalogue it is; empty: none
  std::int64_t memory = 0;        // bytes that the least of its devices has free
  std::int64_t memory_whole = 0;  // bytes of that device
  double memory_bandwidth = 0;    // bytes/s, according to the driver; 0: not known
  Precision usual = Precision::fp32;
  int measured_by = 0;  // a rank
  int gpu = 0;          // as CUDA counts there
};

struct PoolDevice {
  int kind = 0;
  SeenCard card;           // of a processor: empty
  std::vector<int> ranks;  // that see it
};

struct PoolNode {
  std::string name;
  std::vector<PoolDevice> devices;
  std::vector<int> ranks;
};

// Where a rank sends and receives.
struct PoolPlace {
  int node = 0;
  int device = -1;      // in its node; -1: none, the host's memory
  int gpu = 0;          // as CUDA counts there
  bool shared = false;  // an earlier rank has the same device
};

struct Pool {
  bool cards = false;  // devices are cards; else processors, one for each rank
  std::vector<PoolKind> kinds;
  std::vector<PoolNode> nodes;
  std::vector<PoolPlace> places;   // by rank
  std::vector<std::string> notes;  // messages about what users may not expect

  int kind_of(int rank) const;  // -1: none
};

// A node per host name, in the order of ranks; a node's cards in the order in which its ranks see
// them, each once, which is how `hetpipe train` counts them. Cards of one name are one kind, unless
// their memory differs. A rank takes the first card it sees that no earlier rank of its host has
// taken, else one of theirs. Without cards every rank is a device, of kind "cpu", with its share of
// the machine's memory. SystemError if cards were requested and no rank sees one.
Pool decide_pool(const std::vector<ProbeFacts>& facts, ProbeFor what);

// Two ranks whose link is measured; one alone sends to itself.
struct LinkTest {
  int from = 0;
  int to = 0;
  bool operator==(const LinkTest&) const = default;
};

// Of all pairs one for each pair of classes, a class being a node and a kind: ranks of one class
// are alike. Where no two ranks share a node, one rank of each kind sends to itself, which stands
// in for the way inside a node.
std::vector<LinkTest> decide_link_tests(const Pool& pool);

}  // namespace hetpipe
