// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "partitioner/simulator/engine.h"

// The engine's rules (engine.h), repeated in the plainest way: one clock for everybody, moved to
// the next moment at which anything can happen, where everything is looked at afresh. No heap, no
// running ahead, shares found by letting all flows grow together until an interface is full.
namespace hetpipe::test {

struct NaiveTimes {
  std::vector<double> start, end, fired;
};

class NaiveEngine {
 public:
  explicit NaiveEngine(const EngineJob& job)
      : job_(job), line_(job.routes.size()), left_(job.transfers.size()) {
    times_.start.assign(job.ops.size(), -1);
    times_.end.assign(job.ops.size(), 0);
    times_.fired.assign(job.signals.size(), 0);
    for (const EngineSignal& s : job.signals) missing_.push_back(s.needed);
    started_.assign(job.signals.size(), false);
    for (std::size_t i = 0; i < left_.size(); ++i) left_[i] = job.transfers[i].bytes;
    for (std::size_t p = 0; p < job.end.size(); ++p) {
      at_.push_back(static_cast<std::size_t>(job.first_op(static_cast<int>(p))));
      until_.push_back(-1);
      answered_.push_back(false);
    }
  }

  NaiveTimes play() {
    for (;;) {
      while (step()) {
      }
      const std::vector<double> rates = rates_now();
      double next = kNever;
      for (const double until : until_) {
        if (until > now_) next = std::min(next, until);
      }
      for (std::size_t s = 0; s < missing_.size(); ++s) {
        if (missing_[s] == 0 && times_.fired[s] > now_) next = std::min(next, times_.fired[s]);
      }
      for (std::size_t q = 0; q < line_.size(); ++q) {
        if (line_[q].empty()) continue;
        const double all = left_[line_[q].front()];
        next = std::min(next, now_ + all / rates[q]);
        for (const Blocked& b : blocked_) {  // a release on the way
          if (b.queue != q) continue;
          const double over = held(q) - b.room;
          if (over > kSmall && over < all) next = std::min(next, now_ + over / rates[q]);
        }
      }
      if (next == kNever) return times_;
      for (std::size_t q = 0; q < line_.size(); ++q) {
        if (line_[q].empty()) continue;
        double& left = left_[line_[q].front()];
        left -= rates[q] * (next - now_);
        if (left < kSmall) left = 0;
      }
      now_ = next;
    }
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  static constexpr double kSmall = 1e-9;

  struct Blocked {
    std::size_t process, queue;
    double room;
  };

  double held(std::size_t q) const {
    double bytes = 0;
    for (const std::size_t t : line_[q]) bytes += left_[t];
    return bytes;
  }

  std::size_t queue_of(std::size_t transfer) const {
    return static_cast<std::size_t>(
        job_.routes[static_cast<std::size_t>(job_.transfers[transfer].route)].queue);
  }

  // One thing that happens now; false where nothing more does.
  bool step() {
    for (std::size_t q = 0; q < line_.size(); ++q) {
      if (line_[q].empty() || left_[line_[q].front()] > 0) continue;
      const EngineTransfer& t = job_.transfers[line_[q].front()];
      line_[q].pop_front();
      count(t.signal, now_ + job_.routes[static_cast<std::size_t>(t.route)].latency);
      return true;
    }
    for (std::size_t i = 0; i < blocked_.size(); ++i) {
      if (held(blocked_[i].queue) > blocked_[i].room + kSmall) continue;
      finish(blocked_[i].process);
      blocked_.erase(blocked_.begin() + static_cast<std::ptrdiff_t>(i));
      return true;
    }
    for (std::size_t s = 0; s < missing_.size(); ++s) {
      if (started_[s] || missing_[s] > 0 || times_.fired[s] > now_) continue;
      started_[s] = true;
      count(job_.signals[s].then, times_.fired[s]);
      for (int t = job_.signals[s].first; t >= 0;
           t = job_.transfers[static_cast<std::size_t>(t)].next) {
        line_[queue_of(static_cast<std::size_t>(t))].push_back(static_cast<std::size_t>(t));
      }
      return true;
    }
    for (std::size_t p = 0; p < at_.size(); ++p) {
      if (act(p)) return true;
    }
    return false;
  }

  void finish(std::size_t p) {
    times_.end[at_[p]] = now_;
    ++at_[p];
    until_[p] = -1;
    answered_[p] = false;
  }

  void count(int signal, double time) {
    if (signal < 0) return;
    const auto s = static_cast<std::size_t>(signal);
    times_.fired[s] = std::max(times_.fired[s], time);
    --missing_[s];
  }

  bool fired(int signal) const {
    const auto s = static_cast<std::size_t>(signal);
    return missing_[s] == 0 && times_.fired[s] <= now_;
  }

  bool act(std::size_t p) {
    if (at_[p] == static_cast<std::size_t>(job_.end[p])) return false;
    for (const Blocked& b : blocked_) {
      if (b.process == p) return false;
    }
    const Op& op = job_.ops[at_[p]];
    const bool first = times_.start[at_[p]] < 0;
    if (first) times_.start[at_[p]] = now_;
    switch (op.kind) {
      case OpKind::compute:
        if (first) until_[p] = now_ + op.seconds;
        if (until_[p] > now_) return false;
        break;
      case OpKind::arrive:
        count(op.index, now_);
        break;
      case OpKind::wait:
      case OpKind::stream:
        if (!fired(op.index)) return false;
        break;
      case OpKind::ask: {
        const EngineQuestion& question = job_.questions[static_cast<std::size_t>(op.index)];
        if (first) until_[p] = now_ + question.there;
        if (!answered_[p]) {
          if (until_[p] > now_ || !fired(question.signal)) return false;
          until_[p] = std::max(until_[p], times_.fired[static_cast<std::size_t>(question.signal)]) +
                      question.back;
          answered_[p] = true;
        }
        if (until_[p] > now_) return false;
        break;
      }
      case OpKind::send: {
        const auto t = static_cast<std::size_t>(op.index);
        const EngineRoute& route = job_.routes[static_cast<std::size_t>(job_.transfers[t].route)];
        const std::size_t q = queue_of(t);
        line_[q].push_back(t);
        const double room = op.mode == SendMode::buffered ? route.buffer_bytes : 0;
        if (op.mode != SendMode::overlapped && held(q) > room) {
          blocked_.push_back({p, q, room});
          return true;
        }
        break;
      }
    }
    finish(p);
    return true;
  }

  // Shares grow together from 0; a flow stops where one of its interfaces is full, or at 1.
  std::vector<double> rates_now() {
    std::vector<double> share(line_.size(), 0);
    std::vector<bool> grows(line_.size(), false);
    std::vector<double> used(static_cast<std::size_t>(job_.interfaces), 0);
    const auto route = [&](std::size_t q) -> const EngineRoute& {
      return job_.routes[static_cast<std::size_t>(job_.transfers[line_[q].front()].route)];
    };
    for (std::size_t q = 0; q < line_.size(); ++q) grows[q] = !line_[q].empty();
    while (std::find(grows.begin(), grows.end(), true) != grows.end()) {
      std::vector<int> growing(used.size(), 0);
      double most = 1;
      for (std::size_t q = 0; q < line_.size(); ++q) {
        if (!grows[q]) continue;
        most = std::min(most, 1 - share[q]);
        for (const int i : {route(q).out, route(q).in}) {
          if (i >= 0) ++growing[static_cast<std::size_t>(i)];
        }
      }
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (growing[i] > 0) most = std::min(most, (1 - used[i]) / growing[i]);
      }
      for (std::size_t q = 0; q < line_.size(); ++q) {
        if (grows[q]) share[q] += most;
      }
      for (std::size_t i = 0; i < used.size(); ++i) used[i] += most * growing[i];
      for (std::size_t q = 0; q < line_.size(); ++q) {
        if (!grows[q]) continue;
        bool full = share[q] > 1 - kSmall;
        for (const int i : {route(q).out, route(q).in}) {
          full = full || (i >= 0 && used[static_cast<std::size_t>(i)] > 1 - kSmall);
        }
        if (full) grows[q] = false;
      }
    }
    for (std::size_t q = 0; q < line_.size(); ++q) {
      if (!line_[q].empty()) share[q] *= route(q).bandwidth;
    }
    return share;
  }

  const EngineJob& job_;
  double now_ = 0;
  NaiveTimes times_;
  std::vector<std::deque<std::size_t>> line_;  // [queue] transfers, the first under way
  std::vector<double> left_;                   // [transfer]
  std::vector<int> missing_;                   // [signal]
  std::vector<bool> started_;                  // [signal]
  std::vector<std::size_t> at_;                // [process] its operation
  std::vector<double> until_;                  // [process] when what it does is over
  std::vector<bool> answered_;                 // [process] the question it asks
  std::vector<Blocked> blocked_;
};

inline NaiveTimes play_naively(const EngineJob& job) { return NaiveEngine(job).play(); }

}  // namespace hetpipe::test
