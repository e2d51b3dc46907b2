// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pass_weights.h"

namespace hetpipe {

WeightPolicy policy_of(const Plan& plan, int steps_forward, int steps_backward) {
  const System system = composition(plan);
  using Of = WeightPolicy::Of;
  WeightPolicy policy;
  const bool waves = system.sync != SyncRule::all_reduce;
  policy.visible = Visible::at_once;
  switch (system.weights) {
    case WeightRule::one_version:
      // The same either way, and a continuation knows how.
      if (waves && !has_flush(system.schedule) && plan.in_flight == 1) {
        policy.visible = Visible::exactly;
      }
      break;
    case WeightRule::stash:
      if (waves) policy.visible = Visible::exactly;
      break;
    case WeightRule::vertical_sync:
      policy.visible = Visible::exactly;
      break;
    case WeightRule::two_versions:
      policy.visible = Visible::one_wave_late;
      policy.by_wave = true;
      break;
    case WeightRule::newest:
      policy.backward = Of::newest;
      break;
    case WeightRule::predicted:
      policy.forward = policy.backward = Of::ahead;
      break;
    case WeightRule::bellwether:
      policy.forward = policy.backward = Of::bellwether;
      break;
    case WeightRule::recomputed:
    case WeightRule::mixed:
      policy.forward = Of::minibatch;
      policy.backward = Of::newest;
      break;
  }
  const bool depends_on_depth =
      system.weights == WeightRule::stash || system.weights == WeightRule::vertical_sync;
  policy.decay_as_forward = policy.backward == Of::forward && (waves || !depends_on_depth);
  if (policy.predicts()) {
    policy.steps_forward = steps_forward;
    policy.steps_backward = steps_backward;
  }
  return policy;
}

PassWeights::PassWeights(const WeightPolicy& policy, LocalWeights& weights, Optimizer& optimizer,
                         Device& device, Stream& stream, int passes)
    : policy_(policy),
      weights_(weights),
      optimizer_(optimizer),
      device_(device),
      stream_(stream),
      passes_(passes) {
  if (policy.predicts()) optimizer.prepare_to_look_ahead();
}

PassWeights::Of& PassWeights::of(Minibatch p) {
  const auto [found, added] = of_.try_emplace(p);
  if (added) {
    found->second.kept.resize(static_cast<std::size_t>(passes_));
    found->second.forwards_left = found->second.backwards_left = passes_;
  }
  return found->second;
}

PassWeights::Version PassWeights::predict(Minibatch p, const Version& from, int steps) {
  if (steps == 0) return from;
  ++predictions_;
  auto ahead = std::make_shared<WeightVersion>();
  ahead->label = from->label;
  ahead->values = Buffer(device_, stream_, from->values.bytes(), MemoryKind::versions);
  optimizer_.look_ahead(p, steps, weights_.updated(), from->values.as<float>(),
                        ahead->values.as<float>());
  return ahead;
}

PassWeights::Version PassWeights::forward(Minibatch p, int pass) {
  Of& own = of(p);
  Version version;
  switch (policy_.forward) {
    case WeightPolicy::Of::minibatch:
      if (!own.forward) own.forward = weights_.version_for(p);
      version = own.forward;
      break;
    case WeightPolicy::Of::bellwether:
      if (!own.forward) own.forward = predict(p, weights_.version_for(p), policy_.steps_forward);
      version = own.forward;
      break;
    case WeightPolicy::Of::ahead:
      version = predict(p, weights_.version_for(p), policy_.steps_forward);
      break;
    case WeightPolicy::Of::newest:
    case WeightPolicy::Of::forward:
      version = weights_.version_for(p);
      break;
  }
  if (policy_.backward == WeightPolicy::Of::forward) {
    own.kept[static_cast<std::size_t>(pass)] = version;
  }
  return version;
}

void PassWeights::forward_done(Minibatch p, int) {
  Of& own = of(p);
  if (--own.forwards_left == 0) own.forward.reset();
}

PassWeights::Version PassWeights::backward(Minibatch p, int pass) {
  Of& own = of(p);
  Version& kept = own.kept[static_cast<std::size_t>(pass)];
  if (kept) return kept;
  switch (policy_.backward) {
    case WeightPolicy::Of::bellwether:
      if (!own.backward) own.backward = predict(p, weights_.newest(), policy_.steps_backward);
      kept = own.backward;
      break;
    case WeightPolicy::Of::ahead:
      kept = predict(p, weights_.newest(), policy_.steps_backward);
      break;
    case WeightPolicy::Of::newest:
    case WeightPolicy::Of::minibatch:
    case WeightPolicy::Of::forward:
      kept = weights_.newest();
      break;
  }
  return kept;
}

void PassWeights::backward_done(Minibatch p, int pass) {
  Of& own = of(p);
  Version& kept = own.kept[static_cast<std::size_t>(pass)];
  if (--own.backwards_left == 0) {
    own.last = policy_.decay_as_forward ? kept : nullptr;
    own.backward.reset();
  }
  kept.reset();
}

PassWeights::Version PassWeights::at_update(Minibatch p) {
  Version version = std::move(of(p).last);
  if (version) return version;
  if (policy_.visible == Visible::at_once) return weights_.newest();
  auto all = std::make_shared<WeightVersion>();
  all->values = weights_.everything();
  return all;
}

void PassWeights::minibatch_done(Minibatch p) { of_.erase(p); }

}  // namespace hetpipe
