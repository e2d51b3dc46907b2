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
  EngineRoute route{
      link.bandwidth, link.latency * use.latencies, -1, -1, use.process, use.buffer_bytes,
      use.queue};
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
  if (sharing_ == Sharing::fair || from.node == to.node) return add_route(from, to, use);
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

Chain::Chain(Network& network, std::span<const DeviceName> members)
    : members_(static_cast<int>(members.size())) {
  // The last piece goes behind the others, and it alone pays the latency.
  const auto add_way = [&](std::vector<Way>& ways, const DeviceName& from, const DeviceName& to) {
    const int last = network.add_route(from, to);
    ways.push_back({network.add_route(from, to, {.latencies = 0, .queue = last}), last});
  };
  for (std::size_t i = 0; i + 1 < members.size(); ++i) {
    add_way(up_, members[i], members[i + 1]);
    add_way(down_, members[i + 1], members[i]);
  }
}

// Signals of a round, one block after another:
//   ready[i]    members 0 ... i have joined: the first pieces go up from i, the others but the last
//               from i - 1 to i; from the last member's on, all but the last down everywhere
//   up[i]       all but the last piece have left i, and the last came from below: it continues
//   down[i]     likewise down to i
//   done[i]     the last piece of the sum is at i
// A round's pieces stand behind those of the round before.
Chain::Round Chain::add_round(EngineJob& job, const ReducedBytes& bytes, Round before) const {
  if (members_ < 2) return {};
  const int n = members_;
  const int stands_behind = before.first < 0 ? 0 : 1;
  const Round round{job.add_signal(1 + stands_behind), n};
  for (int i = 1; i < n; ++i) job.count_on(round.ready(i - 1), job.add_signal(2 + stands_behind));
  for (int i = 0; i + 1 < n; ++i) job.add_signal(i == 0 ? 1 : 2);  // up
  for (int i = 0; i + 1 < n; ++i) job.add_signal(2);               // down
  for (int i = 0; i < n; ++i) job.add_signal();                    // done
  if (stands_behind > 0) {
    for (int i = 0; i + 1 < n; ++i) job.count_on(before.up(i), round.ready(i));
    job.count_on(before.down(0), round.ready(n - 1));
  }
  const double last = std::min(bytes.piece, bytes.all);
  const double first = std::min(bytes.ahead, bytes.all - last);
  const auto follow_with_last = [&](const Way& way, int follow, int arrival) {
    job.start_on(follow, job.add_transfer(way.last, last, arrival));
  };
  for (int i = 0; i + 1 < n; ++i) {
    const Way& up = up_[static_cast<std::size_t>(i)];
    const Way& down = down_[static_cast<std::size_t>(i)];
    job.start_on(round.ready(i), job.add_transfer(up.pieces, first, -1));
    job.start_on(round.ready(i + 1),
                 job.add_transfer(up.pieces, bytes.all - first - last, round.up(i)));
    follow_with_last(up, round.up(i), i + 2 < n ? round.up(i + 1) : round.done(n - 1));
    job.start_on(round.ready(n - 1),
                 job.add_transfer(down.pieces, bytes.all - last, round.down(i)));
    follow_with_last(down, round.down(i), round.done(i));
    job.count_on(round.done(i + 1), round.down(i));
  }
  return round;
}

}  // namespace hetpipe
