// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

// Emulated links: a message is delivered no earlier than queue + bytes/bandwidth + latency of its
// link, and so at each of the network interfaces that it passes. Every interface has a queue of its
// own: a message that queues at one does not keep another one idle, as with a switch with buffers.
// All ranks of an emulated cluster run on one machine and share one table of "busy until" times (a
// file mapped by every rank), so that ranks of one emulated node share its interface.
namespace hetpipe {

// One directed link between two ranks. Resources are numbers that ranks agree on (from the plan): a
// node's interface out, a node's interface in, or a pair of devices inside a node. A transfer
// occupies all of them for bytes/bandwidth.
struct EmulatedLink {
  double bandwidth = 0;  // bytes/s
  double latency = 0;    // s
  std::vector<int> resources;
};

// [from * ranks + to]; nullopt: not emulated.
struct LinkTable {
  int ranks = 0;
  int resources = 0;
  std::vector<std::optional<EmulatedLink>> links;
  const std::optional<EmulatedLink>& link(Rank from, Rank to) const {
    return links[static_cast<std::size_t>(from.value * ranks + to.value)];
  }
};

// The shared "busy until" table. Thread and process safe.
class LinkClock {
 public:
  // In this process only (ranks as threads).
  static std::shared_ptr<LinkClock> in_process(int resources);
  // Shared by all processes that open the same file (one rank creates it before the
  // others open it).
  static std::shared_ptr<LinkClock> in_file(const std::string& path, int resources, bool create);
  virtual ~LinkClock() = default;

  // Reserves the link's resources for a message that is ready at now_ns; returns when it is
  // delivered.
  std::int64_t reserve(const EmulatedLink& link, std::uint64_t bytes, std::int64_t now_ns);

 protected:
  struct Table;  // lock and times
  virtual Table& table() = 0;
};

}  // namespace hetpipe
