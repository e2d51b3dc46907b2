// SPDX-License-Identifier: Apache-2.0
#include "kernels/offload/thread_stream.h"

#include <chrono>
#include <utility>

#include "base/time.h"

namespace hetpipe {
namespace {

// Long enough for a host that forgets to wait to be ahead; every so many pieces of work.
constexpr std::chrono::microseconds kLate{50};
constexpr int kLateEvery = 8;

struct Point {
  std::atomic<bool> reached{false};
  std::int64_t ns = 0;         // when; written before it is reached
  std::exception_ptr failure;  // written before it is reached
};

class ThreadEvent final : public Event {
 public:
  explicit ThreadEvent(std::shared_ptr<Point> point) : point_(std::move(point)) {}
  bool done() const override {
    if (!point_->reached.load(std::memory_order_acquire)) return false;
    if (point_->failure) std::rethrow_exception(point_->failure);
    return true;
  }
  std::int64_t done_ns() const override { return point_->ns; }
  const std::shared_ptr<Point>& point() const { return point_; }

 private:
  std::shared_ptr<Point> point_;
};

}  // namespace

ThreadStream::ThreadStream() : thread_([this] { run(); }) {}

ThreadStream::~ThreadStream() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wanted_.notify_one();
  thread_.join();
}

void ThreadStream::enqueue(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  wanted_.notify_one();
}

void ThreadStream::run() {
  for (int done = 0;; ++done) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      wanted_.wait(lock, [this] { return over_ || !work_.empty(); });
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    if (done % kLateEvery == 0) std::this_thread::sleep_for(kLate);
    try {
      work();
    } catch (...) {
      if (!failure_) failure_ = std::current_exception();
    }
  }
}

std::unique_ptr<Event> ThreadStream::record() {
  auto point = std::make_shared<Point>();
  enqueue([this, point] {
    point->failure = failure_;
    point->ns = now_ns();
    point->reached.store(true, std::memory_order_release);
    point->reached.notify_all();
  });
  return std::make_unique<ThreadEvent>(std::move(point));
}

void ThreadStream::wait(const Event& event) {
  enqueue([point = dynamic_cast<const ThreadEvent&>(event).point()] {
    point->reached.wait(false, std::memory_order_acquire);
    if (point->failure) std::rethrow_exception(point->failure);
  });
}

void ThreadStream::synchronize() {
  const std::unique_ptr<Event> event = record();
  dynamic_cast<const ThreadEvent&>(*event).point()->reached.wait(false, std::memory_order_acquire);
  event->done();
}

}  // namespace hetpipe
