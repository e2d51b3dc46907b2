// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/stop_agreement.h"

namespace hetpipe {

// Where a run without servers agrees on its end: at the first virtual worker's first stage
// (Roles::coordinator()). Made before any rank may ask the run to stop.
class StopCoordinator {
 public:
  StopCoordinator(const WaveRules& rules, RunAhead ahead, RankService& service);

  // At this rank, before its first F of minibatch p. If the run was asked to stop: decides
  // on the label, tells all ranks, and waits until all know.
  void before_forward(Minibatch p);

 private:
  struct Wanted {
    Rank by;
    int signal = 0;
  };
  const WaveRules& rules_;
  RankService& service_;
  StopAtForward agreement_;
  std::optional<Wanted> wanted_;
};

}  // namespace hetpipe
