// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/time.h"
#include "runtime/pipeline/rank_service.h"

namespace hetpipe {

// The emulated device's clock. An action starts, in modelled time, when the device is free and its
// input is there, and ends its modelled seconds later; the real arithmetic runs first, then the
// rank waits for that end. So the cost of waking up from one wait is not added to the next
// action. Counts actions, those whose arithmetic alone took longer than their model (overran), and
// how far the modelled ends were missed in all (late: the machine was busy with other work).
class Pace {
 public:
  explicit Pace(RankService& service);

  // Something that the next action needs arrived (or was delivered) at this time.
  void input_at(std::int64_t time_ns);
  // The same for an answer that arrived after so long, if it was waited for rather than present.
  void answered(double seconds, std::int64_t time_ns) {
    constexpr double kFound = 100e-6;  // s
    if (seconds > kFound) input_at(time_ns);
  }
  // When the device was busy, in modelled time where it is emulated.
  struct Span {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    double seconds() const { return seconds_between(start_ns, end_ns); }
  };
  // The action has been computed since start_ns: waits for its modelled end. 0 seconds: not
  // emulated. Returns when the device was busy with it.
  Span hold(std::int64_t start_ns, double modelled_seconds);
  // A short action: the device's clock moves on, and the wait is left to what follows.
  Span advance(std::int64_t start_ns, double modelled_seconds);
  // Waits for the end of what has been advanced.
  void catch_up();

  std::int64_t actions() const { return actions_; }
  std::int64_t overruns() const { return overruns_; }
  double overrun_seconds() const { return overrun_seconds_; }
  double late_seconds() const { return late_seconds_; }

 private:
  RankService& service_;
  std::int64_t free_ns_;  // modelled time at which the device has done all its work
  std::int64_t input_ns_;
  std::int64_t actions_ = 0;
  std::int64_t overruns_ = 0;
  double overrun_seconds_ = 0;
  double late_seconds_ = 0;
};

}  // namespace hetpipe
