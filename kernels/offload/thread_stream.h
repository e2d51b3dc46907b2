// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "kernels/device.h"

namespace hetpipe {

// A stream whose work runs in a thread of its own, in order, and a little later than it could. What
// a piece of work throws comes out of the events behind it and of synchronize().
class ThreadStream final : public Stream {
 public:
  ThreadStream();
  ThreadStream(const ThreadStream&) = delete;
  ThreadStream& operator=(const ThreadStream&) = delete;
  ~ThreadStream() override;  // when all work is done

  void enqueue(std::function<void()> work);

  std::unique_ptr<Event> record() override;
  void wait(const Event& event) override;
  void synchronize() override;

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<std::function<void()>> work_;  // under mutex_
  bool over_ = false;                       // under mutex_
  std::exception_ptr failure_;              // of the thread alone
  std::thread thread_;
};

}  // namespace hetpipe
