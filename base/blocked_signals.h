// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <initializer_list>

namespace hetpipe {

// While it lives, the thread that made it takes none of these signals, nor do the threads that are
// started meanwhile, for as long as they live. A signal to the process goes to one of its threads
// that takes it, or waits until there is one.
class BlockedSignals {
 public:
  BlockedSignals() {  // all of them
    sigset_t all;
    sigfillset(&all);
    block(all);
  }
  explicit BlockedSignals(std::initializer_list<int> signals) {
    sigset_t some;
    sigemptyset(&some);
    for (const int signal : signals) sigaddset(&some, signal);
    block(some);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  void block(const sigset_t& signals) { pthread_sigmask(SIG_BLOCK, &signals, &before_); }

  sigset_t before_;
};

}  // namespace hetpipe
