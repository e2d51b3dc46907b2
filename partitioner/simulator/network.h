// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/simulator/engine.h"

// A cluster's links as the engine's routes and interfaces, and the rings and chains of
// all-reduce over them.
namespace hetpipe {

// What a route is used for, beyond which two devices it joins.
struct RouteUse {
  int process = -1;         // the only one that sends there; -1: several, or signals
  double latencies = 1;     // how many of the link's a transfer pays
  double buffer_bytes = 0;  // of SendMode::buffered
  int queue = -1;           // of an earlier route, whose transfers it goes behind; -1: its own
};

enum class Sharing {
  fair,    // as real links are: interfaces shared by their flows (engine.h)
  queued,  // as emulated links are: the same, and a server's one after another
};

// Between nodes a route passes the out interface of one node and the in interface of the other,
// inside a node the link of its pair in its direction: the routes of one pair share it, other pairs
// do not. A server stands for its node: {node, -1}.
class Network {
 public:
  Network(const Cluster& cluster, EngineJob& job, Sharing sharing = Sharing::fair)
      : cluster_(cluster), job_(job), sharing_(sharing) {}

  // A route of its own for every call. UserError where the cluster has no such link.
  int add_route(const DeviceName& from, const DeviceName& to, const RouteUse& use = {});

  // Between a device and a server. Emulated links between nodes pass a server's messages one after
  // the other, in each direction; inside its node every device has a link of its own to it.
  int add_server_route(const DeviceName& from, const DeviceName& to, const RouteUse& use = {});

  EngineJob& job() { return job_; }

 private:
  int interface(const std::string& key);
  EngineRoute route_between(const DeviceName& from, const DeviceName& to, const RouteUse& use);

  const Cluster& cluster_;
  EngineJob& job_;
  Sharing sharing_;
  std::map<std::string, int> queues_;
  std::map<std::string, int> interfaces_;
};

// Interfaces that a single queue uses are taken off its routes: nobody is there to share with, and
// the engine plays such routes faster. Once all routes are added.
void drop_unshared_interfaces(EngineJob& job);

// What each of D members of a ring sends to its neighbour per byte that they reduce: 2 (D - 1) / D.
double ring_share(std::size_t members);

// Ring all-reduce (reduce-scatter, then all-gather) of D members: each sends its share of the
// bytes to its neighbour in 2 (D - 1) steps, each of which pays the latency. So the ring takes
// 2 (D - 1) (bytes / D / b + latency) on its slowest link, more where its edges share interfaces.
// Members of one node stand together, so the ring leaves each node once.
class Ring {
 public:
  Ring(Network& network, std::span<const DeviceName> members);

  struct Round {
    int join = -1;  // every member arrives here once; then it starts
    int done = -1;  // and here they wait; -1 for one alone, who has nothing to do
  };
  // One all-reduce of `bytes` of each member, where a member is a group of `gpus` the bytes of all
  // of them.
  Round add_round(EngineJob& job, double bytes) const;

 private:
  std::vector<int> edges_;  // routes
};

// What a chain reduces.
struct ReducedBytes {
  double all = 0;    // of each member
  double piece = 0;  // of a message at most
  double ahead = 0;  // that are sent up to one who has not joined yet
};

// All-reduce of D members as this runtime does it (runtime/sync/gradient_exchange.h): a chain in
// their order, up which pieces of partial sums go, while finished ones come down. Each of the D - 1
// hops carries all bytes both ways at once, and the last piece 2 (D - 1) hops one after another:
// bytes / b + (2 (D - 1) - 1) piece / b + 2 (D - 1) latency on equal links, more where hops share
// interfaces, as those of a member in the middle do. A hop up begins when the members as far as its
// lower end have joined, with the pieces that are sent ahead, and continues when its upper end has;
// the hops down begin when all have.
class Chain {
 public:
  Chain(Network& network, std::span<const DeviceName> members);

  struct Round {
    int first = -1;  // signal
    int members = 0;
    // Of a member: it arrives here once, and waits there.
    int ready(int i) const { return first + i; }
    int done(int i) const { return first + 3 * members - 2 + i; }
    // Of a hop: when its last piece may go.
    int up(int i) const { return first + members + i; }
    int down(int i) const { return first + 2 * members - 1 + i; }
  };
  // One all-reduce. Every round knows which was the one before.
  Round add_round(EngineJob& job, const ReducedBytes& bytes, Round before) const;

 private:
  struct Way {        // from one member to the next
    int pieces = -1;  // routes of one queue: all messages but the last,
    int last = -1;    // and the last
  };
  int members_;
  std::vector<Way> up_, down_;  // [lower member]
};

}  // namespace hetpipe
