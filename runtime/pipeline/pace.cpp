// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pace.h"

#include <algorithm>

#include "base/time.h"

namespace hetpipe {

Pace::Pace(RankService& service) : service_(service), free_ns_(now_ns()), input_ns_(free_ns_) {}

void Pace::input_at(std::int64_t time_ns) { input_ns_ = std::max(input_ns_, time_ns); }

Pace::Span Pace::hold(std::int64_t start_ns, double modelled_seconds) {
  const std::int64_t now = now_ns();
  if (modelled_seconds <= 0) return {start_ns, now};
  ++actions_;
  const double overrun = seconds_between(start_ns, now) - modelled_seconds;
  if (overrun > 0) {
    ++overruns_;
    overrun_seconds_ += overrun;
  }
  const std::int64_t began = std::max(free_ns_, input_ns_);
  free_ns_ = began + to_ns(modelled_seconds);
  if (now < free_ns_) {
    service_.wait_until_ns(free_ns_);
  } else {
    late_seconds_ += seconds_between(free_ns_, now);
    free_ns_ = now;
  }
  return {began, free_ns_};
}

Pace::Span Pace::advance(std::int64_t start_ns, double modelled_seconds) {
  if (modelled_seconds <= 0) return {start_ns, now_ns()};
  const std::int64_t began = std::max(free_ns_, input_ns_);
  free_ns_ = began + to_ns(modelled_seconds);
  return {began, free_ns_};
}

void Pace::catch_up() {
  if (now_ns() < free_ns_) service_.wait_until_ns(free_ns_);
}

}  // namespace hetpipe
