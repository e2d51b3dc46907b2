// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/engine.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/index.h"
#include "base/text.h"

// A process runs ahead of the clock until it has to wait or to send over something shared, so
// computing costs no event. A signal's time is known, and may lie ahead, as soon as it was counted
// for the last time; only those that start transfers need an event of their own.
namespace hetpipe {
namespace {

constexpr std::uint32_t kIndexBits = 30;
constexpr std::uint32_t kIndexMask = (1U << kIndexBits) - 1;
constexpr std::size_t kFewEvents = 4096;

// splitmix64's finisher: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

double unit(std::uint64_t bits) { return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53; }

}  // namespace

int EngineJob::add_route(const EngineRoute& route) {
  ensure(route.bandwidth > 0, "a route moves something");
  routes.push_back(route);
  const int index = static_cast<int>(routes.size()) - 1;
  if (route.queue < 0) routes.back().queue = index;
  return index;
}

int EngineJob::add_signal(int needed) {
  signals.push_back({needed});
  return static_cast<int>(signals.size()) - 1;
}

int EngineJob::add_transfer(int route, double bytes, int signal) {
  transfers.push_back({bytes, route, signal});
  return static_cast<int>(transfers.size()) - 1;
}

void EngineJob::start_on(int signal, int transfer) {
  EngineSignal& s = at(signals, signal);
  (s.first < 0 ? s.first : at(transfers, s.last).next) = transfer;
  s.last = transfer;
}

void EngineJob::count_on(int signal, int next) {
  EngineSignal& s = at(signals, signal);
  ensure(s.then < 0, "a signal counts towards one other");
  s.then = next;
}

void EngineJob::ask(int signal, double there, double back) {
  questions.push_back({signal, there, back});
  ops.push_back({0, static_cast<std::int32_t>(questions.size()) - 1, OpKind::ask});
}

void EngineJob::clear() {
  ops.clear();
  end.clear();
  routes.clear();
  transfers.clear();
  signals.clear();
  questions.clear();
  interfaces = 0;
}

const EngineTimes& Engine::play(const EngineJob& job, const EngineOptions& options) {
  job_ = &job;
  options_ = options;
  prepare(job);
  for (std::size_t p = processes_.size(); p-- > 0;) ready_.push_back(static_cast<int>(p));
  for (;;) {
    for (;;) {
      while (!ready_.empty()) {
        const std::int32_t process = ready_.back();
        ready_.pop_back();
        run(process);
      }
      // All that happens at one moment, before rates are worked out.
      if (events_.empty() || events_.front().time() > now_) break;
      const Event event = pop();
      const auto index = static_cast<std::int32_t>(event.what & kIndexMask);
      switch (event.what >> kIndexBits) {
        case kResume:
          ready_.push_back(index);
          break;
        case kQueue:
          if (!is_void(event)) progress(index);
          break;
        default:
          fire(index);
      }
    }
    if (!dirty_.empty()) {
      settle();
      drop_void_events();
      if (options_.most_rates > 0 && times_.rates > options_.most_rates) throw TooManyRates();
    } else if (events_.empty()) {
      break;
    } else {
      now_ = events_.front().time();
    }
  }
  check_end();
  return times_;
}

void Engine::prepare(const EngineJob& job) {
  now_ = 0;
  settling_ = 0;
  times_.rates = 0;
  events_.clear();
  most_events_ = kFewEvents;
  ready_.clear();
  dirty_.clear();
  const auto zeros = [](auto& values, std::size_t count) {
    reserve_huge(values, count);
    values.assign(count, 0);
  };
  zeros(times_.end, job.ops.size());
  zeros(times_.fired, job.signals.size());
  zeros(times_.on_the_wire, job.signals.size());
  processes_.clear();
  for (std::size_t p = 0; p < job.end.size(); ++p) {
    processes_.push_back({0, job.first_op(static_cast<int>(p)), job.end[p], -1});
  }
  signals_.clear();
  reserve_huge(signals_, job.signals.size());
  for (const EngineSignal& signal : job.signals) signals_.push_back({signal.needed, -1});
  reserve_huge(in_line_, job.transfers.size());
  in_line_.assign(job.transfers.size(), -1);
  queues_.assign(job.routes.size(), {});
  flows_.assign(job.routes.size(), {});
  interfaces_.resize(static_cast<std::size_t>(job.interfaces));
  for (Interface& interface : interfaces_) {
    interface.flows.clear();
    interface.seen = 0;
    interface.dirty = false;
  }
}

void Engine::check_end() const {
  for (std::size_t p = 0; p < processes_.size(); ++p) {
    if (processes_[p].next == processes_[p].end) continue;
    const std::int64_t op = processes_[p].next - job_->first_op(static_cast<int>(p));
    ensure(false, format("process %zu of the simulated job waits forever at its operation %lld", p,
                         static_cast<long long>(op)));
  }
}

double Engine::jittered(std::int32_t process, std::int64_t op, double seconds) const {
  const auto counter = static_cast<std::uint64_t>(op - job_->first_op(process));
  const std::uint64_t key =
      mixed(mixed(options_.seed) ^ (static_cast<std::uint64_t>(process) << 40U) ^ counter);
  const double angle = 6.283185307179586 * unit(mixed(key + 1));
  const double normal = std::sqrt(-2 * std::log(unit(mixed(key)))) * std::cos(angle);
  const double variance = std::log1p(options_.jitter * options_.jitter);
  return seconds * std::exp(std::sqrt(variance) * normal - variance / 2);
}

void Engine::run(std::int32_t process) {
  Process& p = at(processes_, process);
  for (; p.next < p.end; ++p.next) {
    const Op& op = at(job_->ops, p.next);
    switch (op.kind) {
      case OpKind::compute:
        p.now += options_.jitter > 0 ? jittered(process, p.next, op.seconds) : op.seconds;
        break;
      case OpKind::send:
        if (!send(process, op)) return;
        break;
      case OpKind::arrive:
        count(op.index, p.now, p.now);
        break;
      case OpKind::wait:
      case OpKind::stream:
      case OpKind::ask: {
        const bool asks = op.kind == OpKind::ask;
        const std::int32_t index = asks ? at(job_->questions, op.index).signal : op.index;
        SignalState& signal = at(signals_, index);
        if (signal.missing > 0) {
          p.next_waiter = signal.waiter;
          signal.waiter = process;
          return;
        }
        if (asks) {
          const EngineQuestion& question = at(job_->questions, op.index);
          p.now = std::max(p.now + question.there, at(times_.fired, index)) + question.back;
        } else {
          p.now = std::max(p.now, at(times_.fired, index) + op.seconds);
        }
        break;
      }
    }
    at(times_.end, p.next) = p.now;
  }
}

// False while the process cannot continue.
bool Engine::send(std::int32_t process, const Op& op) {
  Process& p = at(processes_, process);
  const EngineTransfer& transfer = at(job_->transfers, op.index);
  const EngineRoute& route = at(job_->routes, transfer.route);
  if (route.process >= 0 && route.out < 0 && route.in < 0) {
    p.now = send_alone(op, route, p.now);
    return true;
  }
  if (p.now > now_) {
    push(p.now, kResume, process);
    return false;
  }
  post(op.index);
  if (op.mode == SendMode::overlapped) return true;
  Queue& queue = at(queues_, route.queue);
  const double room = op.mode == SendMode::buffered ? route.buffer_bytes : 0;
  advance(route.queue);
  if (queue.left + queue.behind <= room) return true;
  ensure(queue.waiting < 0, "one sender at most waits for a queue");
  queue.waiting = process;
  queue.buffer = room;
  if (at(flows_, route.queue).rate > 0) schedule(route.queue);
  return false;
}

// Nobody else uses this route: its times follow from the sender's alone. Queue::since is when the
// last byte sent so far has left.
double Engine::send_alone(const Op& op, const EngineRoute& route, double now) {
  const EngineTransfer& transfer = at(job_->transfers, op.index);
  Queue& queue = at(queues_, route.queue);
  const double depart = std::max(now, queue.since);
  queue.since = depart + transfer.bytes / route.bandwidth;
  count(transfer.signal, queue.since + route.latency, depart);
  if (op.mode == SendMode::overlapped) return now;
  const double room = op.mode == SendMode::buffered ? route.buffer_bytes / route.bandwidth : 0;
  return std::max(now, queue.since - room);
}

void Engine::count(std::int32_t signal, double time, double depart) {
  if (signal < 0) return;
  SignalState& state = at(signals_, signal);
  double& fired = at(times_.fired, signal);
  if (time >= fired) {
    fired = time;
    at(times_.on_the_wire, signal) = depart;
  }
  ensure(state.missing > 0, "a signal of the simulated job is counted too often");
  if (--state.missing > 0) return;
  if (at(job_->signals, signal).first >= 0) push(fired, kFire, signal);
  for (std::int32_t p = state.waiter; p >= 0; p = at(processes_, p).next_waiter) {
    ready_.push_back(p);
  }
  count(at(job_->signals, signal).then, fired, depart);
}

void Engine::fire(std::int32_t signal) {
  for (std::int32_t t = at(job_->signals, signal).first; t >= 0; t = at(job_->transfers, t).next) {
    post(t);
  }
}

bool Engine::is_void(const Event& event) const {
  return event.what >> kIndexBits == kQueue &&
         event.stamp != at(queues_, static_cast<std::int32_t>(event.what & kIndexMask)).stamp;
}

// Where rates change often most events are void: without them the heap stays small.
void Engine::drop_void_events() {
  if (events_.size() < most_events_) return;
  std::erase_if(events_, [&](const Event& event) { return is_void(event); });
  std::sort(events_.begin(), events_.end(), before);  // which is a heap
  most_events_ = 2 * events_.size() + kFewEvents;
}

void Engine::push(double time, EventKind kind, std::int32_t index, std::uint32_t stamp) {
  const Event event{std::bit_cast<std::uint64_t>(time),
                    std::uint32_t{kind} << kIndexBits | static_cast<std::uint32_t>(index), stamp};
  std::size_t hole = events_.size();
  events_.push_back(event);
  while (hole > 0) {
    const std::size_t above = (hole - 1) / 4;
    if (!before(event, events_[above])) break;
    events_[hole] = events_[above];
    hole = above;
  }
  events_[hole] = event;
}

Engine::Event Engine::pop() {
  const Event top = events_.front();
  const Event last = events_.back();
  events_.pop_back();
  const std::size_t size = events_.size();
  const auto earlier = [&](std::size_t a, std::size_t b) {
    return a + (b - a) * static_cast<std::size_t>(before(events_[b], events_[a]));
  };
  std::size_t hole = 0;
  for (;;) {
    const std::size_t first = 4 * hole + 1;
    std::size_t least = first;
    if (first + 4 <= size) {
      least = earlier(earlier(first, first + 1), earlier(first + 2, first + 3));
    } else if (first < size) {
      for (std::size_t i = first + 1; i < size; ++i) least = earlier(least, i);
    } else {
      break;
    }
    if (!before(events_[least], last)) break;
    events_[hole] = events_[least];
    hole = least;
  }
  if (size > 0) events_[hole] = last;
  return top;
}

}  // namespace hetpipe
