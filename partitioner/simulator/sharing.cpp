// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/simulator/engine.h"

// The part of the engine that moves bytes: queues, and how flows share interfaces (engine.h).
namespace hetpipe {
namespace {

// Two shares of which one is bigger by rounding alone count as equal.
constexpr double kRounding = 1 + 1e-12;

// Of 2 and all of these: four at a time, as each minimum waits for the one before.
double least_of(const std::vector<double>& values) {
  double least[4] = {2, 2, 2, 2};
  std::size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) least[k] = std::min(least[k], values[i + k]);
  }
  for (; i < values.size(); ++i) least[0] = std::min(least[0], values[i]);
  return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
}

}  // namespace

void Engine::post(std::int32_t transfer) {
  const EngineTransfer& t = at(job_->transfers, transfer);
  const EngineRoute& route = at(job_->routes, t.route);
  ensure(route.process < 0 || route.out >= 0 || route.in >= 0,
         "only its process sends over a private route");
  Queue& queue = at(queues_, route.queue);
  (queue.head < 0 ? queue.head : at(in_line_, queue.tail)) = transfer;
  queue.tail = transfer;
  queue.behind += t.bytes;
  if (queue.current < 0) start_next(route.queue);
}

// Takes the first in line; where it goes over the same interfaces as the one before, no rate
// changes.
void Engine::start_next(std::int32_t index) {
  Queue& queue = at(queues_, index);
  Flow& flow = at(flows_, index);
  if (queue.head < 0) {
    queue.current = -1;
    flow.rate = queue.left = queue.behind = 0;
    ++queue.stamp;
    leave_interfaces(index);
    return;
  }
  const bool goes_on = queue.current >= 0;
  queue.current = queue.head;
  queue.head = at(in_line_, queue.head);
  const EngineTransfer& transfer = at(job_->transfers, queue.current);
  const EngineRoute& route = at(job_->routes, transfer.route);
  queue.left = transfer.bytes;
  queue.behind = queue.head < 0 ? 0 : queue.behind - transfer.bytes;
  queue.since = queue.depart = now_;
  flow.bandwidth = route.bandwidth;
  if (route.out < 0 && route.in < 0) {
    leave_interfaces(index);
    flow.rate = route.bandwidth;
  } else if (goes_on && flow.interface[0] == route.out && flow.interface[1] == route.in) {
    flow.rate = flow.share * route.bandwidth;
  } else {
    leave_interfaces(index);
    enter_interfaces(index, route);
    flow.rate = 0;  // until the rates of this moment are settled
    ++queue.stamp;
  }
  if (flow.rate > 0) schedule(index);
}

void Engine::mark(std::int32_t interface) {
  Interface& marked = at(interfaces_, interface);
  if (marked.dirty) return;
  marked.dirty = true;
  dirty_.push_back(interface);
}

void Engine::enter_interfaces(std::int32_t index, const EngineRoute& route) {
  Flow& flow = at(flows_, index);
  flow.interface[0] = route.out;
  flow.interface[1] = route.in;
  for (int side = 0; side < 2; ++side) {
    if (flow.interface[side] < 0) continue;
    Interface& interface = at(interfaces_, flow.interface[side]);
    flow.place[side] = static_cast<std::int32_t>(interface.flows.size());
    interface.flows.push_back(2 * index + side);
    mark(flow.interface[side]);
  }
}

// The last one of an interface takes its place there.
void Engine::leave_interfaces(std::int32_t index) {
  Flow& flow = at(flows_, index);
  for (int side = 0; side < 2; ++side) {
    if (flow.interface[side] < 0) continue;
    std::vector<std::int32_t>& flows = at(interfaces_, flow.interface[side]).flows;
    const std::int32_t last = flows.back();
    at(flows, flow.place[side]) = last;
    at(flows_, last / 2).place[last % 2] = flow.place[side];
    flows.pop_back();
    mark(flow.interface[side]);
    flow.interface[side] = -1;
  }
}

// Brings what is left of the transfer under way up to now.
void Engine::advance(std::int32_t index) {
  Queue& queue = at(queues_, index);
  queue.left = std::max(0.0, queue.left - at(flows_, index).rate * (now_ - queue.since));
  queue.since = now_;
}

// The next thing to happen to the transfer under way, which was advanced: so much has left that the
// waiting sender may continue, or all of it.
void Engine::schedule(std::int32_t index) {
  Queue& queue = at(queues_, index);
  queue.target = queue.waiting < 0 ? 0 : std::max(0.0, queue.buffer - queue.behind);
  const double seconds = std::max(0.0, queue.left - queue.target) / at(flows_, index).rate;
  push(now_ + seconds, kQueue, index, ++queue.stamp);
}

void Engine::progress(std::int32_t index) {
  Queue& queue = at(queues_, index);
  queue.left = queue.target;
  queue.since = now_;
  if (queue.waiting >= 0 && queue.behind <= queue.buffer) {  // its target was the sender's
    Process& sender = at(processes_, queue.waiting);
    sender.now = at(times_.end, sender.next) = now_;
    ++sender.next;
    ready_.push_back(queue.waiting);
    queue.waiting = -1;
  }
  if (queue.left > 0) {
    schedule(index);
    return;
  }
  const EngineTransfer& transfer = at(job_->transfers, queue.current);
  count(transfer.signal, now_ + at(job_->routes, transfer.route).latency, queue.depart);
  start_next(index);
}

void Engine::settle() {
  ++settling_;
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    Interface& interface = at(interfaces_, dirty_[i]);
    interface.dirty = false;
    if (interface.seen != settling_ && !settle_alone(interface)) settle_around(dirty_[i]);
  }
  dirty_.clear();
}

// No flow, or one that has its interfaces for itself: mostly so where devices are few.
bool Engine::settle_alone(Interface& interface) {
  if (interface.flows.size() > 1) return false;
  if (interface.flows.empty()) return true;
  const std::int32_t node = interface.flows.front();
  const std::int32_t other = at(flows_, node / 2).interface[1 - node % 2];
  if (other >= 0) {
    if (at(interfaces_, other).flows.size() > 1) return false;
    at(interfaces_, other).seen = settling_;
  }
  ++times_.rates;
  set_rate(node / 2, 1);
  return true;
}

// All flows that a change at one interface can reach, over the interfaces that they share.
void Engine::settle_around(std::int32_t start) {
  near_.assign(1, start);
  near_flows_.clear();
  at(interfaces_, start).seen = settling_;
  for (std::size_t i = 0; i < near_.size(); ++i) {
    Interface& interface = at(interfaces_, near_[i]);
    interface.place = static_cast<std::int32_t>(i);
    interface.left = 1;
    interface.open = static_cast<std::int32_t>(interface.flows.size());
    for (const std::int32_t node : interface.flows) {
      Flow& flow = at(flows_, node / 2);
      if (flow.seen == settling_) continue;
      flow.seen = settling_;
      flow.share = -1;
      near_flows_.push_back(node / 2);
      const std::int32_t other = flow.interface[1 - node % 2];
      if (other >= 0 && at(interfaces_, other).seen != settling_) {
        at(interfaces_, other).seen = settling_;
        near_.push_back(other);
      }
    }
  }
  times_.rates += static_cast<std::int64_t>(near_flows_.size());
  fill();
}

double Engine::share_at(const Interface& interface) {
  return interface.open > 0 ? interface.left / interface.open
                            : std::numeric_limits<double>::infinity();
}

// Progressive filling: the interface whose flows can have the least sets their share; what they
// leave elsewhere is for the others.
void Engine::fill() {
  shares_.clear();
  for (const std::int32_t i : near_) shares_.push_back(share_at(at(interfaces_, i)));
  std::size_t fixed = 0;
  while (fixed < near_flows_.size()) {
    // Hundreds of interfaces, hundreds of times, in large pools: what one could give is worked out
    // only where it changes.
    const double least = least_of(shares_);
    const double doubtful = least * (1 + 1e-9);
    for (std::size_t place = 0; place < near_.size(); ++place) {
      if (shares_[place] > doubtful) continue;
      Interface& interface = at(interfaces_, near_[place]);
      if (interface.open == 0 || interface.left > least * kRounding * interface.open) continue;
      for (const std::int32_t node : interface.flows) {
        const Flow& flow = at(flows_, node / 2);
        if (flow.share >= 0) continue;
        ++fixed;
        set_rate(node / 2, least);
        for (const std::int32_t used : flow.interface) {
          if (used < 0) continue;
          Interface& shared = at(interfaces_, used);
          shared.left = std::max(0.0, shared.left - least);
          --shared.open;
          shares_[static_cast<std::size_t>(shared.place)] = share_at(shared);
        }
      }
    }
  }
}

void Engine::set_rate(std::int32_t index, double share) {
  Flow& flow = at(flows_, index);
  flow.share = share;
  const double rate = share * flow.bandwidth;
  if (rate == flow.rate) return;
  advance(index);
  flow.rate = rate;
  schedule(index);
}

}  // namespace hetpipe
