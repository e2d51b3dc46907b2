// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_agreement.h"

#include <algorithm>

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

bool StopAgreement::all_know() const {
  return std::find(known_.begin(), known_.end(), false) == known_.end();
}

bool StopAgreement::shut(Wave wave) const { return label_ && wave + 1 >= *label_ && !all_know(); }

void StopInside::comes_to(Minibatch next) {
  ensure(awaited_ > 0, "an answer that nobody asked for");
  --awaited_;
  furthest_ = std::max(furthest_, next);
}

std::optional<Minibatch> StopInside::decide(Label label) const {
  const Minibatch before = furthest_ + 1;
  const Minibatch shortest = *std::min_element(rules_.end.begin(), rules_.end.end());
  if (before >= std::min(label * rules_.length(), shortest)) return std::nullopt;
  return before;
}

StopAtForward::StopAtForward(const WaveRules& rules, RunAhead ahead, int ranks)
    : rules_(rules), ahead_(ahead), known_(static_cast<std::size_t>(ranks), false) {}

std::optional<Label> StopAtForward::decide(Minibatch p) {
  if (decided_) return std::nullopt;
  const Minibatch untouched = p + ahead_.between_sums - 1 + 2 * ahead_.held + 1;
  const Label label = (untouched + rules_.length() - 1) / rules_.length();
  if (label >= rules_.end_label()) return std::nullopt;
  decided_ = true;
  return label;
}

void StopAtForward::knows(Rank rank) { known_.at(static_cast<std::size_t>(rank.value)) = true; }

bool StopAtForward::all_know() const {
  return std::find(known_.begin(), known_.end(), false) == known_.end();
}

}  // namespace hetpipe
