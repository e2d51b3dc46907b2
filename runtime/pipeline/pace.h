// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/pipeline/rank_service.h"

namespace hetpipe {

// The emulated device's clock: real arithmetic first, then waiting until the modelled time has passed. Counts actions,
// and those that took longer than their model (overran).
class Pace {
 public:
  explicit Pace(RankService& service) : service_(service) {}

  // Modelled time of an action with its modelled seconds; 0: not emulated, nothing is waited for.
  void hold(std::int64_t start_ns, double modelled_seconds);

  std::int64_t actions() const { return actions_; }
  std::int64_t overruns() const { return overruns_; }
  double overrun_seconds() const { return overrun_seconds_; }

 private:
  RankService& service_;
  std::int64_t actions_ = 0;
  std::int64_t overruns_ = 0;
  double overrun_seconds_ = 0;
};

}  // namespace hetpipe
