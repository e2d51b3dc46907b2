// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pace.h"

#include "base/time.h"

namespace hetpipe {

void Pace::hold(std::int64_t start_ns, double modelled_seconds) {
  if (modelled_seconds <= 0) return;
  ++actions_;
  const std::int64_t due = start_ns + to_ns(modelled_seconds);
  const std::int64_t now = now_ns();
  if (now > due) {
    ++overruns_;
    overrun_seconds_ += seconds_between(due, now);
    return;
  }
  service_.wait_until_ns(due);
}

}  // namespace hetpipe
