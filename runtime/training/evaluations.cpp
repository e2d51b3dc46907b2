// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/evaluations.h"

#include <algorithm>

namespace hetpipe {

DueLabels due_labels(const TrainJob& job, const WaveRules& rules, int every, Label after) {
  DueLabels due{.after = after, .end = rules.end_label(), .every = every};
  due.first = rules.first_wave;
  due.samples_before = job.start.origin_consumed;
  due.samples_of_wave = job.plan.global_batch() * job.plan.wave_length();
  due.samples_of_epoch = job.dataset_size;
  return due;
}

Minibatch gate_minibatch(const WaveRules& rules, Label label) {
  return rules.gate_of(label + rules.distance);
}

Evaluations::Evaluations(const TrainJob& job, const WaveRules& rules)
    : waves_(has_waves(job.plan)), rules_(rules) {
  // A continued run comes by the gates of the labels before its start once more.
  const Label after = std::max(rules.first_wave, rules.bound_label(rules.start_wave()) - 1);
  if (job.test_size > 0) due_ = due_labels(job, rules, job.evaluate_every, after);
}

std::optional<Label> Evaluations::next(Label label) const {
  if (!due_) return std::nullopt;
  const std::optional<Label> due = due_->next(label);
  if (!due || *due == due_->end) return due;
  const Minibatch shortest = *std::min_element(rules_.end.begin(), rules_.end.end());
  return minibatch_of(*due) >= shortest ? due_->end : *due;
}

Minibatch Evaluations::minibatch_of(Label label) const {
  if (waves_) return gate_minibatch(rules_, label);
  const Minibatch end = *std::max_element(rules_.end.begin(), rules_.end.end());
  return std::min(label * rules_.length(), end) - 1;
}

ActionCursor::NextEvent Evaluations::events(VirtualWorkerId vw) const {
  return [*this, vw, label = due_ ? due_->after : 0]() mutable -> std::optional<Action> {
    const std::optional<Label> due = next(label);
    if (!due) return std::nullopt;
    label = *due;
    const bool last = waves_ && label == due_->end;
    return Action{
        .kind = ActionKind::evaluate,
        .minibatch = last ? rules_.end[static_cast<std::size_t>(vw.value)] : minibatch_of(label)};
  };
}

}  // namespace hetpipe
