// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_coordinator.h"

#include "base/text.h"

namespace hetpipe {

StopCoordinator::StopCoordinator(const WaveRules& rules, RunAhead ahead, RankService& service)
    : service_(service), agreement_(rules, ahead, service.transport().ranks()) {
  service.on(MessageKind::stop_wanted, [this](const ControlMessage& m) {
    if (!wanted_) wanted_ = {m.from, m.header.part};
  });
  service.on(MessageKind::stop_known,
             [this](const ControlMessage& m) { agreement_.knows(m.from); });
}

void StopCoordinator::before_forward(Minibatch p) {
  if (!wanted_) return;
  const std::optional<Label> label = agreement_.decide(p);
  if (!label) return;
  service_.tell_all({.kind = static_cast<std::int32_t>(MessageKind::stop_at),
                     .part = wanted_->signal,
                     .minibatch = wanted_->by.value,
                     .label = *label});
  service_.wait_for_others([this] { return agreement_.all_know(); },
                           [label] {
                             return format("all ranks to know that the run stops after wave %lld",
                                           static_cast<long long>(*label));
                           });
}

}  // namespace hetpipe
