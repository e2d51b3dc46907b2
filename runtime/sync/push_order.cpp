// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/push_order.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {

PushOrder::PushOrder(const WaveRules& rules, std::vector<int> pulls)
    : rules_(rules), pulls_(std::move(pulls)), added_(pulls_.size(), rules.start_wave()) {}

void PushOrder::gate_passed(VirtualWorkerId vw, Wave wave, Label label) {
  ++gates_;
  gated_.push_back({vw, wave - 1});
  const int pulls = pulls_[at(vw.value)];
  if (pulls > 0) to_pull_[label] = pulls;
}

std::optional<PushOrder::Push> PushOrder::next() const {
  if (!gated_.empty()) return gated_.front();
  Wave gates = 0;  // of all
  std::optional<Push> first;
  for (int i = 0; i < rules_.workers(); ++i) {
    const VirtualWorkerId vw{i};
    const Wave waves = rules_.end_wave(vw) - rules_.start_wave();
    // The last wave has no gate behind it, and the one before none where it ends before its gate.
    const bool partial = waves > 1 && !rules_.has_gate_behind(vw, rules_.end_wave(vw) - 2);
    gates += std::max<Wave>(0, waves - (partial ? 2 : 1));
    if (!first && added_[at(i)] < rules_.end_wave(vw)) first = Push{vw, added_[at(i)]};
  }
  return gates_ == gates ? first : std::nullopt;
}

void PushOrder::added() {
  const std::optional<Push> push = next();
  ensure(push && added_[at(push->virtual_worker.value)] == push->wave,
         "pushes of a virtual worker are added one after another");
  ++added_[at(push->virtual_worker.value)];
  if (!gated_.empty()) gated_.pop_front();
}

void PushOrder::pulled(Label label) {
  const auto left = to_pull_.find(label);
  if (left != to_pull_.end() && --left->second == 0) to_pull_.erase(left);
}

std::optional<Label> PushOrder::oldest_to_pull() const {
  return to_pull_.empty() ? std::nullopt : std::optional(to_pull_.begin()->first);
}

Label PushOrder::complete() const {
  Label complete = rules_.end_label();
  for (int i = 0; i < rules_.workers(); ++i) {
    if (added_[at(i)] < rules_.end_wave(VirtualWorkerId{i})) {
      complete = std::min(complete, added_[at(i)]);
    }
  }
  return complete;
}

}  // namespace hetpipe
