// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/timeline.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kMostActions = 500'000;  // that are simulated and kept

struct Length {
  Minibatch simulated = 0;
  Minibatch edge = 0;  // minibatches at either end that may differ from those between
};

Minibatch rounded_up(Minibatch p, Minibatch to) { return (p + to - 1) / to * to; }

// Both multiples of a wave.
Length length_of(const Plan& plan, const System& system, Minibatch minibatches) {
  std::size_t devices = 0;
  std::size_t stages = 1;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    stages = std::max(stages, vw.stages.size());
    for (const PlanStage& stage : vw.stages) devices += stage.devices.size();
  }
  const Minibatch wave = plan.wave_length();
  const Minibatch ahead = plan.server ? std::min(plan.server->clock_distance, 64) : 0;
  Length length;
  length.edge = rounded_up(static_cast<Minibatch>(stages), wave) + (2 + ahead) * wave;
  // Forward, backward, their messages both ways, and an update.
  const std::int64_t actions = static_cast<std::int64_t>(devices) * (8 * plan.micro_batches + 4);
  const Minibatch most = std::max(kMostActions / actions, 6 * length.edge);
  const Minibatch least = traits(system.schedule).has_flush ? 1 : 2 * wave;
  length.simulated = std::max(least, std::min(minibatches, most / wave * wave));
  return length;
}

bool same_action(const Action& a, const Action& b) {
  const bool moves = a.kind == ActionKind::send || a.kind == ActionKind::receive;
  return a.kind == b.kind && a.micro == b.micro && a.chunk == b.chunk &&
         (!moves || a.payload == b.payload);
}

}  // namespace

Timeline::Timeline(const Plan& plan, const Cluster& cluster, const Profile& profile,
                   Minibatch minibatches)
    : minibatches_(minibatches), wave_(plan.wave_length()) {
  const System system = composition(plan);
  const Length length = length_of(plan, system, minibatches);
  SimulationRequest request;
  request.minibatches = static_cast<int>(length.simulated);
  request.keep_events = true;
  request.ledgers = false;
  Simulation simulation = simulate(plan, cluster, profile, request);
  stages_ = std::move(simulation.stages);
  complete_ = std::move(simulation.complete);
  gates_ = std::move(simulation.gates);
  distance_ = plan.server ? plan.server->clock_distance : 0;
  bounded_ = traits(system.sync).bounded;
  rows_.resize(stages_.size());
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    rows_[r].timeline_ = this;
    rows_[r].virtual_worker_ = stages_[r].virtual_worker;
  }
  for (const SimulatedEvent& event : simulation.events) {
    rows_[at(event.row)].events_.push_back(event);
  }
  for (Row& row : rows_) {
    std::stable_sort(row.events_.begin(), row.events_.end(), [](const auto& a, const auto& b) {
      return a.action.minibatch < b.action.minibatch;
    });
    row.first_.assign(at(length.simulated) + 1, row.events_.size());
    for (std::size_t e = row.events_.size(); e-- > 0;) {
      row.first_[at(row.events_[e].action.minibatch)] = e;
    }
    for (std::size_t p = at(length.simulated); p-- > 0;) {
      row.first_[p] = std::min(row.first_[p], row.first_[p + 1]);
    }
  }
  if (minibatches <= length.simulated) return;
  // The second half of what lies between the edges.
  const Minibatch end = length.simulated - length.edge;
  period_ = (end - length.edge) / 2 / wave_ * wave_;
  pace_.assign(plan.virtual_workers.size(), 0);
  for (const Row& row : rows_) {
    double& pace = pace_[at(row.virtual_worker_)];
    pace = std::max(pace, row.of(end - 1).end - row.of(end - 1 - period_).end);
  }
  if (bounded_) {  // which keeps them together
    pace_.assign(pace_.size(), *std::max_element(pace_.begin(), pace_.end()));
  } else {  // one gate after another, where the period begins again, too
    const Wave last = end / wave_ - 1;
    for (std::size_t i = 0; i < pace_.size(); ++i) {
      const VirtualWorkerId vw{static_cast<int>(i)};
      pace_[i] = std::max(pace_[i], passed(vw, last) - passed(vw, last - period_ / wave_));
    }
  }
  repeat_ = end;
}

Timeline::Place Timeline::place(Minibatch p, int vw) const {
  if (repeat_ == 0 || p < repeat_) return {p, 0};
  const Minibatch periods = (p - repeat_) / period_ + 1;
  return {p - periods * period_, static_cast<double>(periods) * pace_[at(vw)]};
}

const Timeline::Row& Timeline::row(VirtualWorkerId vw, int position, int replica) const {
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const SimulatedStage& stage = stages_[r];
    if (stage.virtual_worker == vw.value && stage.stage == position && stage.replica == replica) {
      return rows_[r];
    }
  }
  ensure(false, "a timeline without a device of the plan");
  return rows_.front();
}

std::optional<Timeline::Row::Span> Timeline::Row::of(const Action& action) const {
  const Place place = timeline_->place(action.minibatch, virtual_worker_);
  if (at(place.simulated) + 1 >= first_.size()) return std::nullopt;
  for (std::size_t e = first_[at(place.simulated)]; e < first_[at(place.simulated) + 1]; ++e) {
    if (!same_action(events_[e].action, action)) continue;
    return Span{events_[e].start + place.later, events_[e].end + place.later, events_[e].busy};
  }
  return std::nullopt;
}

MinibatchTimes Timeline::Row::of(Minibatch p) const {
  const Place place = timeline_->place(p, virtual_worker_);
  MinibatchTimes times;
  if (at(place.simulated) + 1 >= first_.size()) return times;
  for (std::size_t e = first_[at(place.simulated)]; e < first_[at(place.simulated) + 1]; ++e) {
    const SimulatedEvent& event = events_[e];
    times.end = std::max(times.end, event.end + place.later);
    switch (event.action.kind) {
      case ActionKind::pull:
        times.server_wait += event.end - event.start;
        continue;
      case ActionKind::forward:
      case ActionKind::recompute:
        times.forward += event.busy;
        break;
      case ActionKind::backward:
      case ActionKind::weight_gradient:
        times.backward += event.busy;
        break;
      default:
        times.update += event.busy;
    }
    times.transfer += event.wire;
    times.bubble += std::max(0.0, event.end - event.start - event.busy - event.wire);
  }
  return times;
}

double Timeline::complete(Label label) const {
  const Minibatch first = label * wave_;
  if (repeat_ == 0 || first < repeat_) {
    return complete_[std::min(at(label), complete_.size() - 1)];
  }
  const Minibatch periods = (first - repeat_) / period_ + 1;
  const double pace = *std::max_element(pace_.begin(), pace_.end());  // the slowest one's
  return complete_[at((first - periods * period_) / wave_)] + static_cast<double>(periods) * pace;
}

std::optional<Label> Timeline::label(VirtualWorkerId vw, Wave wave) const {
  if (!bounded_ || gates_.empty() || wave < 1) return std::nullopt;
  const double time = passed(vw, wave);
  // Labels are complete one after another: the last that is, of those from the bound to the wave.
  Label low = std::max<Label>(0, wave - distance_);
  Label high = wave;
  while (low < high) {
    const Label middle = (low + high + 1) / 2;
    if (complete(middle) <= time) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

double Timeline::passed(VirtualWorkerId vw, Wave wave) const {
  const Place gate = place(wave * wave_, vw.value);
  const std::vector<double>& decided = gates_[at(vw.value)];
  const std::size_t number = std::min(at(gate.simulated / wave_) - 1, decided.size() - 1);
  return decided[number] + gate.later;
}

double Timeline::seconds() const {
  double last = 0;
  for (const Row& row : rows_) last = std::max(last, row.of(minibatches_ - 1).end);
  return last;
}

}  // namespace hetpipe
