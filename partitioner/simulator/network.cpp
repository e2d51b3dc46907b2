// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/network.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {

int Network::interface(const std::string& key) {
  const auto [at, added] = interfaces_.try_emplace(key, job_.interfaces);
  if (added) ++job_.interfaces;
  return at->second;
}

EngineRoute Network::route_between(const DeviceName& from, const DeviceName& to,
                                   const RouteUse& use) {
  const Link link = cluster_.link(from, to);
  if (!(link.bandwidth > 0)) {
    const bool inside = from.node == to.node;
    throw UserError("", std::string("the cluster has no link ") +
                            (inside ? "inside node '" + from.node + "'"
                                    : "between nodes '" + from.node + "' and '" + to.node + "'") +
                            " (the plan sends from " + to_string(from) + " to " + to_string(to) +
                            "). Give it a [link." + (inside ? "intra_node" : "inter_node") + "].");
  }
  EngineRoute route{link.bandwidth,  link.latency * use.latencies, -1, -1, use.process,
                    use.buffer_bytes};
  if (from.node == to.node) {
    route.out = interface(to_string(from) + ">" + to_string(to));
  } else {
    route.out = interface(from.node + ">");
    route.in = interface(">" + to.node);
  }
  return route;
}

int Network::add_route(const DeviceName& from, const DeviceName& to, const RouteUse& use) {
  return job_.add_route(route_between(from, to, use));
}

int Network::add_server_route(const DeviceName& from, const DeviceName& to, const RouteUse& use) {
  if (sharing_ == Sharing::fair) return add_route(from, to, use);
  EngineRoute route = route_between(from, to, use);
  const auto [at, added] = queues_.try_emplace(from.index < 0 ? from.node + ">" : ">" + to.node, 0);
  if (!added) route.queue = at->second;
  const int index = job_.add_route(route);
  if (added) at->second = index;
  return index;
}

void drop_unshared_interfaces(EngineJob& job) {
  constexpr int kNobody = -1;
  constexpr int kShared = -2;
  std::vector<int> user(static_cast<std::size_t>(job.interfaces), kNobody);
  for (const EngineRoute& route : job.routes) {
    for (const int i : {route.out, route.in}) {
      if (i < 0) continue;
      int& known = user[static_cast<std::size_t>(i)];
      known = known == kNobody || known == route.queue ? route.queue : kShared;
    }
  }
  for (EngineRoute& route : job.routes) {
    for (int* i : {&route.out, &route.in}) {
      if (*i >= 0 && user[static_cast<std::size_t>(*i)] != kShared) *i = -1;
    }
  }
}

double ring_share(std::size_t members) {
  const auto d = static_cast<double>(members);
  return 2 * (d - 1) / d;
}

Ring::Ring(Network& network, std::span<const DeviceName> members) {
  if (members.size() < 2) return;
  std::vector<DeviceName> order(members.begin(), members.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const DeviceName& a, const DeviceName& b) { return a.node < b.node; });
  const double steps = 2 * (static_cast<double>(order.size()) - 1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    edges_.push_back(network.add_route(order[i], order[(i + 1) % order.size()], {-1, steps, 0}));
  }
}

Ring::Round Ring::add_round(EngineJob& job, double bytes) const {
  if (edges_.empty()) return {};
  const Round round{job.add_signal(static_cast<int>(edges_.size())),
                    job.add_signal(static_cast<int>(edges_.size()))};
  for (const int edge : edges_) {
    const double sent = ring_share(edges_.size()) * bytes;
    job.start_on(round.join, job.add_transfer(edge, sent, round.done));
  }
  return round;
}

Chain::Chain(Network& network, std::span<const DeviceName> members) {
  if (members.size() < 2) return;
  const double steps = 2 * (static_cast<double>(members.size()) - 1);
  for (std::size_t i = 0; i + 1 < members.size(); ++i) {
    hops_.push_back(network.add_route(members[i], members[i + 1], {-1, steps, 0}));
    hops_.push_back(network.add_route(members[i + 1], members[i], {-1, steps, 0}));
  }
}

ReduceRound Chain::add_round(EngineJob& job, double bytes, double piece) const {
  if (hops_.empty()) return {};
  const int hops = static_cast<int>(hops_.size());
  const ReduceRound round{job.add_signal(hops / 2 + 1), job.add_signal(hops)};
  const double filling = (hops - 1) * std::min(piece, bytes);
  for (const int hop : hops_) {
    job.start_on(round.join, job.add_transfer(hop, bytes + filling, round.done));
  }
  return round;
}

}  // namespace hetpipe
