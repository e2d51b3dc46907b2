// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_coordinator.h"

#include "base/text.h"
#include "runtime/sync/messages.h"

namespace hetpipe {

StopCoordinator::StopCoordinator(const WaveRules& rules, RunAhead ahead, RankService& service)
    : rules_(rules), service_(service), agreement_(rules, ahead, service.transport().ranks()) {
  service.on<StopRequest>([this](Rank from, const StopRequest& request) {
    if (!wanted_) wanted_ = {from, request.signal};
  });
  service.on<StopKnown>([this](Rank from, const StopKnown&) { agreement_.knows(from); });
}

void StopCoordinator::before_forward(Minibatch p) {
  if (!wanted_) return;
  const std::optional<Label> label = agreement_.decide(p);
  if (!label) return;
  service_.tell_all(
      StopAt{.before = *label * rules_.length(), .by = wanted_->by, .signal = wanted_->signal});
  service_.wait_for_others([this] { return agreement_.all_know(); },
                           [label] {
                             return format("all ranks to know that the run stops after wave %lld",
                                           static_cast<long long>(*label));
                           });
}

}  // namespace hetpipe
