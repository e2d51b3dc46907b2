// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/simt/simt_host.h"

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/cuda/simt/simt_fiber.h"

namespace hetpipe::cuda {

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

std::uint64_t block_serial = 0;

namespace {

constexpr unsigned kWarp = 32;

SimtOrder order = SimtOrder::ascending;
LaunchQueue launch_queue = nullptr;
KernelRunner kernel_runner = nullptr;

enum class State { unstarted, ready, at_barrier, at_warp, left };

struct Thread {
  State state = State::unstarted;
  Fiber* fiber = nullptr;  // from its start until it leaves
  const std::source_location* where = nullptr;
  Warp operation = Warp::sync;
  unsigned mask = 0, source = 0;
  std::uint64_t value = 0;  // given, then received
};

const char* to_string(Warp operation) {
  return operation == Warp::sync      ? "__syncwarp"
         : operation == Warp::shuffle ? "a warp shuffle"
                                      : "a warp vote";
}

std::string place(const std::source_location& where) {
  const std::string file = where.file_name();
  return format("%s:%u", file.substr(file.rfind('/') + 1).c_str(), where.line());
}

// The blocks of one launch, one at a time. A fiber whose thread has left takes the next one that
// has not started, so kernels without barriers need one fiber and no switch.
class Block {
 public:
  Block(unsigned threads, const std::function<void()>& body) : threads_(threads), body_(body) {}

  // Throws what went wrong, without the launch's place; not to be used again then.
  void run() {
    host_.be_this_thread();
    for (Thread& thread : threads_) thread = {};
    for (unsigned i = 0; i < threads_.size(); ++i) ready_.push_back(in_order(i));
    running_ = this;
    go_on(host_);
    running_ = nullptr;
    if (failure_.empty()) return;
    free_.clear();  // some fibers are stuck in the middle of a kernel
    fibers_.clear();
    throw SimtFailure(failure_);
  }

  unsigned current() const { return current_; }

  void barrier(const std::source_location& where) {
    if (waiting_ > 0 && threads_[first_waiting_].where->line() != where.line()) {
      fail([&] {
        return format("thread %u waits at the barrier of line %u, thread %u at that of line %u",
                      first_waiting_, threads_[first_waiting_].where->line(), current_,
                      where.line());
      });
    }
    if (waiting_++ == 0) first_waiting_ = current_;
    me().state = State::at_barrier;
    me().where = &where;
    if (waiting_ == threads_.size()) {
      waiting_ = 0;
      for (unsigned i = 0; i < threads_.size(); ++i) make_ready(in_order(i));
    }
    go_on(*me().fiber);
  }

  std::uint64_t warp(Warp operation, unsigned mask, std::uint64_t value, unsigned source,
                     const std::source_location& where) {
    const unsigned first = current_ / kWarp * kWarp, lane = current_ - first;
    const auto here = [&] { return to_string(operation) + (" at " + place(where)); };
    if ((mask >> lane & 1) == 0) {
      fail([&] { return format("thread %u is not in its mask of ", current_) + here(); });
    }
    if (source >= kWarp || (mask >> source & 1) == 0) {
      fail([&] {
        return format("thread %u reads lane %u, which takes no part in ", current_, source) +
               here();
      });
    }
    me().state = State::at_warp;
    me().operation = operation;
    me().mask = mask;
    me().source = source;
    me().value = value;
    me().where = &where;
    bool complete = true;
    for (unsigned l = 0; l < kWarp; ++l) {
      if ((mask >> l & 1) == 0) continue;
      if (first + l >= threads_.size()) {
        fail([&] {
          return format("the mask of thread %u names lane %u, which does not exist, in ", current_,
                        l) +
                 here();
        });
      }
      const Thread& other = threads_[first + l];
      if (other.state == State::left) {
        fail([&] { return format("thread %u has left before ", first + l) + here(); });
      }
      if (other.state != State::at_warp) {
        complete = false;
      } else if (other.operation != operation || other.mask != mask ||
                 other.where->line() != where.line()) {
        fail([&] {
          return format("thread %u waits for mask %08x at line %u, thread %u for mask %08x in ",
                        first + l, other.mask, other.where->line(), current_, mask) +
                 here();
        });
      }
    }
    if (complete) release_warp(first, mask, operation);
    go_on(*me().fiber);
    return me().value;
  }

  void check_aligned(const void* place, std::size_t bytes) {
    if (reinterpret_cast<std::uintptr_t>(place) % bytes == 0) return;
    fail([&] {
      return format("thread %u reaches for %zu bytes at %p, which is not aligned so", current_,
                    bytes, place);
    });
  }

  static Block* running() { return running_; }

 private:
  Thread& me() { return threads_[current_]; }
  unsigned in_order(unsigned i) const {
    return order == SimtOrder::ascending ? i : static_cast<unsigned>(threads_.size()) - 1 - i;
  }
  void make_ready(unsigned thread) {
    threads_[thread].state = State::ready;
    ready_.push_back(thread);
  }

  void release_warp(unsigned first, unsigned mask, Warp operation) {
    std::array<std::uint64_t, kWarp> given{};
    std::uint64_t ballot = 0;
    for (unsigned l = 0; l < kWarp; ++l) {
      if ((mask >> l & 1) == 0) continue;
      given[l] = threads_[first + l].value;
      ballot |= (given[l] & 1) << l;
    }
    for (unsigned i = 0; i < kWarp; ++i) {
      const unsigned l = order == SimtOrder::ascending ? i : kWarp - 1 - i;
      if ((mask >> l & 1) == 0) continue;
      Thread& thread = threads_[first + l];
      thread.value = operation == Warp::ballot ? ballot : given[thread.source];
      make_ready(first + l);
    }
  }

  // Leaves `from` for the next thread that can run; returns when it is `from`'s turn.
  void go_on(Fiber& from) {
    if (ready_.empty()) {
      if (&from == &host_) return;
      describe_stuck();
      from.switch_to(host_);
      return;
    }
    current_ = ready_.front();
    ready_.pop_front();
    set_indices();
    if (me().fiber == nullptr) me().fiber = take_fiber();
    if (me().fiber != &from) from.switch_to(*me().fiber);
    // Whoever came back here has made itself current.
  }

  void set_indices() {
    threadIdx.x = current_ % blockDim.x;
    threadIdx.y = current_ / blockDim.x % blockDim.y;
    threadIdx.z = current_ / blockDim.x / blockDim.y;
  }

  Fiber* take_fiber() {
    if (free_.empty()) {
      fibers_.push_back(std::make_unique<Fiber>(&Block::fiber_main));
      return fibers_.back().get();
    }
    Fiber* const fiber = free_.back();
    free_.pop_back();
    return fiber;
  }

  static void fiber_main() {
    Fiber::begin();
    for (;;) running_->run_thread();
  }

  // On the fiber of the current thread.
  void run_thread() {
    Fiber* const fiber = me().fiber;
    body_();
    me().state = State::left;
    me().fiber = nullptr;
    free_.push_back(fiber);
    go_on(*fiber);
  }

  void describe_stuck() {
    if (!failure_.empty()) return;
    unsigned barrier = 0, warp = 0, left = 0, first = 0;
    for (unsigned i = static_cast<unsigned>(threads_.size()); i-- > 0;) {
      const State state = threads_[i].state;
      (state == State::at_barrier ? barrier : state == State::at_warp ? warp : left) += 1;
      if (state != State::left) first = i;
    }
    if (left == threads_.size()) return;
    failure_ = format(
        "stuck: of %zu threads %u wait at __syncthreads, %u in warp operations and %u have left; "
        "the first that waits is thread %u at %s",
        threads_.size(), barrier, warp, left, first, place(*threads_[first].where).c_str());
  }

  // On a fiber; never returns to it, so that it may hold nothing that needs a destructor.
  template <class What>
  [[noreturn]] void fail(const What& what) {
    failure_ = what();
    me().fiber->switch_to(host_);
    std::terminate();
  }

  std::vector<Thread> threads_;
  const std::function<void()>& body_;
  std::deque<unsigned> ready_;
  unsigned current_ = 0;
  std::size_t waiting_ = 0;  // at the barrier
  unsigned first_waiting_ = 0;
  std::string failure_;
  // Fibers outlive the launch: between its threads one holds nothing of the block's.
  static inline Fiber host_;
  static inline std::vector<std::unique_ptr<Fiber>> fibers_;
  static inline std::vector<Fiber*> free_;
  static inline Block* running_ = nullptr;
};

void check_limits(dim3 blocks, dim3 threads) {
  const std::uint64_t all = std::uint64_t{threads.x} * threads.y * threads.z;
  if (all == 0 || all > 1024 || threads.z > 64) {
    throw SimtFailure(format("blocks of %u x %u x %u threads", threads.x, threads.y, threads.z));
  }
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffffu ||
      blocks.y > 65535 || blocks.z > 65535) {
    throw SimtFailure(format("a grid of %u x %u x %u blocks", blocks.x, blocks.y, blocks.z));
  }
}

}  // namespace

std::uint64_t warp_exchange(Warp operation, unsigned mask, std::uint64_t value, unsigned source,
                            const std::source_location& where) {
  return Block::running()->warp(operation, mask, value, source, where);
}

unsigned lane() { return Block::running()->current() % kWarp; }

void run(const KernelCall& call, const std::function<void()>& body,
         const std::source_location& where) {
  const dim3 blocks = call.blocks, threads = call.threads;
  static std::mutex one_launch;
  const std::lock_guard lock(one_launch);
  try {
    check_limits(blocks, threads);
    if (kernel_runner != nullptr) return kernel_runner(call);
  } catch (const std::exception& failure) {
    throw SimtFailure(format("launch at %s: %s", place(where).c_str(), failure.what()));
  }
  gridDim = blocks;
  blockDim = threads;
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  Block block(threads.x * threads.y * threads.z, body);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t b = order == SimtOrder::ascending ? i : count - 1 - i;
    blockIdx.x = static_cast<unsigned>(b % blocks.x);
    blockIdx.y = static_cast<unsigned>(b / blocks.x % blocks.y);
    blockIdx.z = static_cast<unsigned>(b / blocks.x / blocks.y);
    ++block_serial;
    try {
      block.run();
    } catch (const SimtFailure& failure) {
      throw SimtFailure(format("launch at %s, block (%u, %u, %u): %s", place(where).c_str(),
                               blockIdx.x, blockIdx.y, blockIdx.z, failure.what()));
    }
  }
}

void enqueue(cudaStream_t stream, const void* kernel, std::function<void()> launch) {
  if (launch_queue == nullptr) return launch();
  launch_queue(stream, kernel, std::move(launch));
}

}  // namespace simt

void set_launch_queue(LaunchQueue queue) { simt::launch_queue = queue; }
void set_simt_order(SimtOrder order) { simt::order = order; }
SimtOrder simt_order() { return simt::order; }
void set_kernel_runner(KernelRunner runner) { simt::kernel_runner = runner; }

void check_aligned(const void* place, std::size_t bytes) {
  simt::Block::running()->check_aligned(place, bytes);
}

void __syncthreads(const std::source_location& where) { simt::Block::running()->barrier(where); }

}  // namespace hetpipe::cuda
