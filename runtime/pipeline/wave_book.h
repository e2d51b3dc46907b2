// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>

#include "base/time.h"
#include "runtime/pipeline/reports.h"

namespace hetpipe {

// What a rank notes of its wave, for the report at its end.
class WaveBook {
 public:
  // `place`: virtual worker, stage and replica of all reports.
  explicit WaveBook(const WaveReport& place) : wave_(place) {}

  void start(std::int64_t now) { reported_ns_ = now; }
  // A time that belongs to no wave.
  void leave_out(std::int64_t ns) { reported_ns_ += ns; }

  void add_loss(double sum, std::int64_t correct, std::int64_t samples, std::int64_t labels) {
    wave_.loss_sum += sum;
    wave_.correct += correct;
    wave_.samples += samples;
    wave_.labels += labels;
  }
  void add_pass(std::int64_t samples, double seconds) {
    wave_.computed_samples += samples;
    wave_.compute_seconds += seconds;
  }
  void add_server_wait(double seconds) { wave_.server_wait_seconds += seconds; }
  void set_learning_rate(double rate) { wave_.learning_rate = rate; }
  // Of a minibatch of this wave or of the next one: those begin before.
  void add_staleness(Wave wave, Minibatch stale) {
    const auto [of, first] = stale_.try_emplace(wave, Stale{stale, stale});
    of->second.least = std::min(of->second.least, stale);
    of->second.most = std::max(of->second.most, stale);
  }

  // All of it up to minibatch p, its last; the book is empty then.
  WaveReport close(Wave wave, Minibatch p, double evaluated_seconds) {
    const std::int64_t now = now_ns();
    const auto stale = stale_.extract(wave);
    wave_.wave = wave;
    wave_.staleness_min = stale.mapped().least;
    wave_.staleness_max = stale.mapped().most;
    wave_.last_minibatch = p;
    wave_.elapsed_seconds = seconds_between(reported_ns_, now);
    wave_.evaluated_seconds = evaluated_seconds;
    reported_ns_ = now;
    const WaveReport closed = wave_;
    wave_.samples = wave_.labels = wave_.correct = 0;
    wave_.loss_sum = wave_.server_wait_seconds = 0;
    wave_.computed_samples = 0;
    wave_.compute_seconds = 0;
    return closed;
  }

 private:
  struct Stale {
    Minibatch least = 0;
    Minibatch most = 0;
  };
  WaveReport wave_;
  std::map<Wave, Stale> stale_;
  std::int64_t reported_ns_ = 0;
};

}  // namespace hetpipe
