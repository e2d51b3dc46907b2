// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/stop.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "base/temporary_file.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kSameRequest = 200'000'000;  // ns between two signals of one request
constexpr unsigned kMainThreadLeaves = 2;           // s

std::atomic<int> first_signal{0};
std::atomic<std::int64_t> first_ns{0};
std::atomic<int> second_signal{0};
bool settled = false;
struct sigaction before_usr1;
struct sigaction before_term;

// Only what is safe inside a handler: atomics, clock_gettime, alarm, unlink, _exit.
void note(int signal) {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t ns = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  int none = 0;
  if (first_signal.compare_exchange_strong(none, signal)) {
    first_ns = ns;
    return;
  }
  if (ns - first_ns < kSameRequest) return;
  second_signal = signal;
  // The rank's own thread says goodbye; where it is stuck, the alarm ends the process.
  ::signal(SIGALRM, [](int) {
    remove_temporary_files();
    ::_exit(static_cast<int>(ExitCode::system));
  });
  ::alarm(kMainThreadLeaves);
}

}  // namespace

StopSignals::StopSignals()
    : handler_([this] {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return over_; });
      }),
      elsewhere_({SIGUSR1, SIGTERM, SIGALRM}) {
  first_signal = second_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, &before_usr1);
  ::sigaction(SIGTERM, &action, &before_term);
}

StopSignals::~StopSignals() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  handler_.join();
  if (settled) return;
  ::sigaction(SIGUSR1, &before_usr1, nullptr);
  ::sigaction(SIGTERM, &before_term, nullptr);
}

void StopSignals::exit_code_is_settled() {
  settled = true;
  ::signal(SIGUSR1, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);
  ::alarm(0);
}

std::optional<int> StopSignals::wanted() {
  if (const int second = second_signal; second != 0) {
    throw SystemError(
        format("a second signal (%s) came before the run had stopped: exiting at "
               "once, without a checkpoint",
               signal_name(second)));
  }
  const int first = first_signal;
  return first == 0 ? std::nullopt : std::optional(first);
}

const char* signal_name(int signal) {
  return signal == SIGUSR1 ? "SIGUSR1" : signal == SIGTERM ? "SIGTERM" : "a signal";
}

StopListener::StopListener(RankService& service, Rank decides,
                           std::function<std::optional<int>()> stop_wanted,
                           std::function<void(const StopAt&)> apply) {
  service.on<StopAt>([decides, &service, apply = std::move(apply)](Rank, const StopAt& stop) {
    apply(stop);
    service.send(decides, StopKnown{});
  });
  if (!stop_wanted) return;
  service.also_poll([this, decides, &service, stop_wanted = std::move(stop_wanted)] {
    const std::optional<int> signal = stop_wanted();  // throws when there was a second
    if (!signal || requested_) return;
    requested_ = true;
    service.send(decides, StopRequest{.signal = *signal});
  });
}

}  // namespace hetpipe
