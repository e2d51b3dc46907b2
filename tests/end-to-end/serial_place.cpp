// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_place.h"

#include <algorithm>

#include "base/error.h"
#include "tests/end-to-end/serial_wsp.h"

namespace hetpipe {
namespace {

// B uses what F used; the optimizer's decay does so too.
bool keeps_version(WeightRule rule) {
  return rule == WeightRule::one_version || rule == WeightRule::stash ||
         rule == WeightRule::vertical_sync || rule == WeightRule::two_versions;
}

}  // namespace

SerialRules::SerialRules(const Plan& plan, int worker, Minibatch end_minibatch)
    : system(composition(plan)),
      in_flight(plan.in_flight),
      wave(Minibatch{plan.in_flight} * (plan.server ? plan.server->round : 1)),
      end(end_minibatch),
      rounds_pushes(plan.server && plan.server->push_precision == "bf16") {
  ScheduleRequest request;
  request.stages =
      static_cast<int>(plan.virtual_workers[static_cast<std::size_t>(worker)].stages.size());
  request.micro_batches = plan.micro_batches;
  request.in_flight = plan.in_flight;
  ahead.resize(static_cast<std::size_t>(request.stages));
  if (traits(system.schedule).has_flush) return;  // one version, whatever is held
  const Schedule schedule = generate(system.schedule, steady_request(system.schedule, request));
  held = count_held(schedule).front().minibatches;
  if (request.stages == 1) return;  // without a pipeline nothing comes in between
  if (system.weights == WeightRule::predicted) ahead = count_version_differences(schedule);
  if (system.weights == WeightRule::bellwether) ahead = count_prediction_steps(schedule);
}

SerialPlace::SerialPlace(const SerialRules& the_rules, int the_number, SerialStage the_stage,
                         Floats initial_weights, const Floats& initial_statistics,
                         const SerialOptimizer& optimizer)
    : rules(the_rules),
      number(the_number),
      stage(std::move(the_stage)),
      running(static_cast<std::size_t>(stage.replicas()), initial_statistics),
      steps(optimizer, stage.parameters()),
      base_(std::move(initial_weights)) {
  at[0] = {base_, {}, steps.slots()};
  running_at[0] = running;
}

SerialPlace::Used SerialPlace::for_forward(Minibatch p, int micro) {
  const VersionDifference& far = rules.ahead[static_cast<std::size_t>(number)];
  Minibatch seen = updates();
  switch (rules.system.weights) {
    case WeightRule::predicted:
      return predicted(p, far.forward);
    case WeightRule::bellwether:
      if (micro == 0) of_forwards_[p] = predicted(p, far.forward);
      return of_forwards_.at(p);
    case WeightRule::recomputed:
    case WeightRule::mixed:
      if (micro == 0) of_forwards_[p] = newest();
      return of_forwards_.at(p);
    case WeightRule::vertical_sync:
      seen = std::max<Minibatch>(0, p - rules.held + 1);
      break;
    case WeightRule::two_versions:
      seen = std::max<Minibatch>(0, p / rules.in_flight - 1);
      break;
    case WeightRule::stash:
      if (rules.waves()) seen = std::max<Minibatch>(0, p - rules.in_flight + 1);
      break;
    case WeightRule::one_version:
    case WeightRule::newest:
      break;
  }
  ensure(seen <= updates(), "a version that is there");
  return {weights(seen), seen, 0};
}

SerialPlace::Used SerialPlace::for_backward(Minibatch p, int micro, const Flight& flight) {
  const WeightRule rule = rules.system.weights;
  const VersionDifference& far = rules.ahead[static_cast<std::size_t>(number)];
  decayed_ = flight.forward.weights;
  if (rule == WeightRule::one_version) {
    ensure(flight.forward.updates == updates(), "nothing changes between F and B");
  }
  if (keeps_version(rule)) return flight.forward;
  if (rule == WeightRule::predicted) return predicted(p, far.backward);
  if (rule != WeightRule::bellwether) return newest();
  if (micro == 0) of_backwards_[p] = predicted(p, far.backward);
  return of_backwards_.at(p);
}

const SerialForeign& SerialPlace::foreign_of_backward(Minibatch p) const {
  const WeightRule rule = rules.system.weights;
  const bool of_now =
      rule == WeightRule::newest || rule == WeightRule::recomputed || rule == WeightRule::mixed;
  return of_now ? foreign.rbegin()->second : foreign.at(p);
}

SerialPlace::Used SerialPlace::predicted(Minibatch p, int ahead) const {
  return {steps.predicted(weights(updates()), ahead, p), updates(), ahead};
}

Floats SerialPlace::weights(Minibatch updates) const {
  const auto from = [](const std::vector<Floats>& all, std::int64_t i) -> const Floats& {
    return all[static_cast<std::size_t>(i)];
  };
  Floats sum = base_;
  for (Wave wave = label; wave < gate; ++wave) add(sum, from(waves, wave));
  Minibatch q = gate * rules.wave;
  if (!partial_.empty()) {
    add(sum, partial_);
    q = partial_end_;
  }
  for (; q < updates; ++q) add(sum, from(deltas, q));
  return sum;
}

void SerialPlace::pull(Wave the_gate, Label the_label, Floats snapshot) {
  gate = the_gate;
  label = the_label;
  base_ = std::move(snapshot);
  // Where all own updates are visible, those of this wave so far come back as the sum that is to be
  // pushed stands.
  partial_.clear();
  partial_end_ = updates();
  if (rules.system.weights == WeightRule::stash) return;
  for (Minibatch q = gate * rules.wave; q < partial_end_; ++q) {
    const Floats& delta = deltas[static_cast<std::size_t>(q)];
    if (partial_.empty()) {
      partial_ = delta;
    } else {
      add(partial_, delta);
    }
  }
}

void SerialPlace::update(Minibatch p, const Floats& gradient) {
  // Under all-reduce all virtual workers make one update, whatever their depth.
  const WeightRule rule = rules.system.weights;
  const bool by_depth = rule == WeightRule::stash || rule == WeightRule::vertical_sync;
  const bool as_forward = keeps_version(rule) && (rules.waves() || !by_depth);
  const Floats now = weights(updates());
  deltas.push_back(steps.delta(gradient, as_forward ? decayed_ : now, rules.update_of(p) + 1, p));
  if (p % rules.wave == 0) {
    waves.push_back(deltas.back());  // the sum starts from the first one: -0 stays -0
  } else if (!rules.two_versions()) {
    add(waves.back(), deltas.back());
  }
  if (rules.rounds_pushes && rules.ends_wave(p)) {
    for (float& value : waves.back()) value = nearest_bf16(value);
  }
  of_forwards_.erase(p);
  of_backwards_.erase(p);
}

}  // namespace hetpipe
