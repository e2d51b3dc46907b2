// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_agreement.h"

namespace hetpipe {

// The run's first wave has no gate: all may be in it. A continued run's has.
StopAgreement::StopAgreement(const WaveRules& rules, int ranks)
    : rules_(rules),
      furthest_(rules.played > 0 ? rules.start_wave() - 1 : rules.first_wave),
      known_(static_cast<std::size_t>(ranks), false) {}

void StopAgreement::gate_passed(Wave wave) {
  ensure(!shut(wave), "a gate opened that was to stay shut");
  furthest_ = std::max(furthest_, wave);
}

std::optional<Label> StopAgreement::decide() {
  if (label_) return std::nullopt;
  const Label label = furthest_ + 2;
  if (label >= rules_.end_label()) return std::nullopt;
  label_ = label;
  return label_;
}

void StopAgreement::knows(Rank rank) { known_.at(static_cast<std::size_t>(rank.value)) = true; }

bool StopAgreement::shut(Wave wave) const {
  if (!label_ || wave + 1 < *label_) return false;
  return std::find(known_.begin(), known_.end(), false) != known_.end();
}

}  // namespace hetpipe
