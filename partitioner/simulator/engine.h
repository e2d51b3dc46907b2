// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

// Discrete events without a plan: processes do operations in a fixed order, transfers go over
// routes that share interfaces, signals tell who waits for what. Everything is an index into flat
// arrays; playing a job allocates nothing once the engine has played one of its size.
//
// Links as resources. A *route* is what one directed pair of devices sends over: its bandwidth when
// it is alone, its latency, and the interfaces it passes (at most two: out of one node, into
// another; or the one link of a pair inside a node). The transfers of a *queue* (of one route,
// unless routes are set to share one) go one after the other; the next one starts when the last
// byte of the one before has left, so latencies overlap.
//
// An interface is shared in *time*: a flow that alone would run at b, and has the fraction x of an
// interface's time, runs at x b; the fractions at an interface add up to at most 1. So n flows over
// one interface get b_i / n each, also where their own bandwidths b_i differ (a measured bandwidth
// of a pair says how fast the interface goes for that pair). The fractions are max-min fair (no
// flow can have more without taking from one that has no more than it), found by progressive
// filling whenever a flow starts or ends: what a flow cannot use at one end because its other end
// is crowded goes to the others, as it does between TCP or InfiniBand flows.
namespace hetpipe {

enum class OpKind : std::uint8_t {
  compute,  // `seconds` of the process
  send,     // puts transfer `index` into its queue; may block, see SendMode
  wait,     // until `seconds` after signal `index`; receives are waits for that of a transfer
  stream,   // likewise, for the last of many messages, of which the first are under way
  arrive,   // counts towards signal `index`, does not wait
  ask,      // question `index`: there, wait for its signal, and back
};

enum class SendMode : std::uint8_t {
  overlapped,  // does not wait
  blocking,    // returns when its last byte has left
  buffered,    // returns when what its queue still holds fits the route's buffer
};

struct Op {
  double seconds = 0;
  std::int32_t index = -1;
  OpKind kind = OpKind::compute;
  SendMode mode = SendMode::overlapped;
};

struct EngineRoute {
  double bandwidth = 1;     // bytes/s when alone
  double latency = 0;       // s, after the last byte has left
  int out = -1;             // interfaces; -1: none that anybody else uses
  int in = -1;              //
  int process = -1;         // the only one that sends here; -1: several, or signals
  double buffer_bytes = 0;  // of SendMode::buffered
  int queue = -1;           // shared with the route that has made it; -1: its own
};

struct EngineTransfer {
  double bytes = 0;
  std::int32_t route = 0;
  std::int32_t signal = -1;  // counts when the last byte has arrived; -1: not needed
  std::int32_t next = -1;    // (EngineJob::start_on)
};

// Fires at the latest of the times at which it was counted, once it was counted `needed` times.
struct EngineSignal {
  std::int32_t needed = 1;
  std::int32_t first = -1;  // transfers that start then (EngineJob::start_on)
  std::int32_t last = -1;
  std::int32_t then = -1;  // is counted by it (EngineJob::count_on)
};

struct EngineQuestion {
  std::int32_t signal = -1;
  double there = 0;  // latency
  double back = 0;
};

// A job under construction: processes one after the other, everything else in any order before the
// operation that names it.
struct EngineJob {
  std::vector<Op> ops;                    // process after process
  std::vector<std::int64_t> end;          // one past the last operation of each process
  std::vector<EngineRoute> routes;        //
  std::vector<EngineTransfer> transfers;  //
  std::vector<EngineSignal> signals;      //
  std::vector<EngineQuestion> questions;  //
  int interfaces = 0;

  int add_route(const EngineRoute& route);
  int add_signal(int needed = 1);
  int add_transfer(int route, double bytes, int signal);
  void start_on(int signal, int transfer);  // in the order of the calls
  void count_on(int signal, int next);      // `next` is counted when `signal` fires; one at most

  // Of the process under construction.
  void compute(double seconds) { ops.push_back({seconds, -1, OpKind::compute}); }
  void send(int transfer, SendMode mode = SendMode::overlapped) {
    ops.push_back({0, transfer, OpKind::send, mode});
  }
  void wait(int signal, double seconds = 0) { ops.push_back({seconds, signal, OpKind::wait}); }
  void wait_stream(int signal) { ops.push_back({0, signal, OpKind::stream}); }
  void arrive(int signal) { ops.push_back({0, signal, OpKind::arrive}); }
  void ask(int signal, double there, double back);
  void end_process() { end.push_back(static_cast<std::int64_t>(ops.size())); }

  std::int64_t first_op(int process) const {
    return process == 0 ? 0 : end[static_cast<std::size_t>(process) - 1];
  }
  void clear();  // keeps the memory
};

struct EngineOptions {
  std::uint64_t seed = 0;
  double jitter = 0;  // relative standard deviation of every compute time (log-normal, mean 1),
                      // drawn by seed, process and operation: no draw depends on another
  std::int64_t most_rates = 0;  // of flows that are worked out before it gives up; 0: any number
};

// More rates than EngineOptions::most_rates.
struct TooManyRates {};

// Times in seconds from the start; all processes start at 0, and an operation starts when the one
// before it in its process ends.
struct EngineTimes {
  std::vector<double> end;          // [op]
  std::vector<double> fired;        // [signal]
  std::vector<double> on_the_wire;  // [signal] since when its last transfer has been moving
  std::int64_t rates = 0;           // of flows over interfaces that were worked out

  double start(const EngineJob& job, int process, std::int64_t op) const {
    return op == job.first_op(process) ? 0 : end[static_cast<std::size_t>(op) - 1];
  }
};

class Engine {
 public:
  // Ensures that the job comes to its end: every signal waited for is counted often enough.
  const EngineTimes& play(const EngineJob& job, const EngineOptions& options = {});

 private:
  enum EventKind : std::uint32_t { kResume, kQueue, kFire };
  struct Event {
    std::uint64_t at;     // the bits of its time, which order as times do: none is below 0
    std::uint32_t what;   // two bits of kind, thirty of index
    std::uint32_t stamp;  // of a queue's event: void once the queue has a newer one
    double time() const { return std::bit_cast<double>(at); }
  };
  // Without a branch: which of a heap's events is first can't be guessed.
  static bool before(const Event& a, const Event& b) {
    return static_cast<bool>(static_cast<int>(a.at < b.at) |
                             (static_cast<int>(a.at == b.at) & static_cast<int>(a.what < b.what)));
  }
  struct Queue {
    double left = 0;    // bytes of the transfer under way, at `since`
    double since = 0;   //
    double target = 0;  // what is left at its next event
    double behind = 0;  // bytes that stand in line
    double depart = 0;  // of the transfer under way
    std::int32_t current = -1;
    std::int32_t head = -1, tail = -1;  // in line
    std::int32_t waiting = -1;          // the sender that blocks
    double buffer = 0;                  // until this much is left
    std::uint32_t stamp = 0;
  };
  // What settling looks at of each queue, thousands of them each time in large pools.
  struct Flow {
    double rate = 0;                       // bytes/s; 0: idle, or not settled yet
    double bandwidth = 0;                  // of the route of the transfer under way
    double share = 0;                      // of its interfaces' time; < 0: not fixed yet
    std::int32_t interface[2] = {-1, -1};  // out, in
    std::int32_t place[2] = {0, 0};        // among an interface's flows
    std::uint32_t seen = 0;                // by which settling
  };
  struct Interface {
    std::vector<std::int32_t> flows;  // queue * 2 + side
    std::uint32_t seen = 0;
    bool dirty = false;
    std::int32_t place = 0;  // among those that are settled
    double left = 0;         // of its time, while shares are given out
    std::int32_t open = 0;
  };
  struct SignalState {
    std::int32_t missing = 0;
    std::int32_t waiter = -1;  // process; then next_waiter
  };
  struct Process {
    double now = 0;
    std::int64_t next = 0;
    std::int64_t end = 0;
    std::int32_t next_waiter = -1;
  };

  void prepare(const EngineJob& job);
  void run(std::int32_t process);
  bool send(std::int32_t process, const Op& op);
  double send_alone(const Op& op, const EngineRoute& route, double now);
  void count(std::int32_t signal, double time, double depart);
  void fire(std::int32_t signal);
  void post(std::int32_t transfer);
  void start_next(std::int32_t queue);
  void leave_interfaces(std::int32_t queue);
  void enter_interfaces(std::int32_t queue, const EngineRoute& route);
  void advance(std::int32_t queue);
  void schedule(std::int32_t queue);
  void progress(std::int32_t queue);
  void settle();
  bool settle_alone(Interface& interface);
  void settle_around(std::int32_t interface);
  void fill();
  static double share_at(const Interface& interface);
  void set_rate(std::int32_t queue, double share);
  void mark(std::int32_t interface);
  double jittered(std::int32_t process, std::int64_t op, double seconds) const;
  void check_end() const;

  void push(double time, EventKind kind, std::int32_t index, std::uint32_t stamp = 0);
  Event pop();
  bool is_void(const Event& event) const;
  void drop_void_events();

  const EngineJob* job_ = nullptr;
  EngineOptions options_;
  EngineTimes times_;
  double now_ = 0;
  std::vector<Event> events_;    // a heap
  std::size_t most_events_ = 0;  // above which void ones are looked for
  std::vector<Process> processes_;
  std::vector<std::int32_t> ready_;  // processes
  std::vector<SignalState> signals_;
  std::vector<std::int32_t> in_line_;  // [transfer] the next one in its queue
  std::vector<Queue> queues_;          // [route], of those that have their own
  std::vector<Flow> flows_;            // likewise
  std::vector<Interface> interfaces_;
  std::vector<std::int32_t> dirty_;       // interfaces
  std::vector<double> shares_;            // that each of near_ could give its flows
  std::vector<std::int32_t> near_;        // interfaces of the part that is settled
  std::vector<std::int32_t> near_flows_;  // queues of it
  std::uint32_t settling_ = 0;
};

}  // namespace hetpipe
