// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pass_weights.h"

namespace hetpipe {

WeightPolicy policy_of(const Plan& plan, int steps_forward, int steps_backward) {
  const System system = composition(plan);
  const WeightTraits& weights = traits(system.weights);
  const bool waves = traits(system.sync).waves();
  WeightPolicy policy;
  policy.visible = weights.visible;
  // With one version and one minibatch in flight it is the same either way, and a continuation
  // knows how.
  const bool exact = weights.stashes || plan.in_flight == 1;
  if (waves && !traits(system.schedule).has_flush && exact) {
    policy.visible = weights.visible_in_waves;
  }
  policy.by_wave = weights.update_by_wave;
  policy.forward = weights.forward;
  policy.backward = weights.backward;
  policy.decay_as_forward = weights.keeps_of_forward() && (waves || !weights.stashes);
  if (weights.predicts()) {
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
  if (looks_ahead(policy.forward)) optimizer.prepare_to_look_ahead();
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
  optimizer_.look_ahead(p, steps, weights_.updates_done(), from->values.as<float>(),
                        ahead->values.as<float>());
  return ahead;
}

PassWeights::Version PassWeights::forward(Minibatch p, int pass) {
  Of& own = of(p);
  Version version;
  switch (policy_.forward) {
    case WeightsOf::minibatch:
      if (!own.forward) own.forward = weights_.version_for(p);
      version = own.forward;
      break;
    case WeightsOf::ahead_at_first:
      if (!own.forward) own.forward = predict(p, weights_.version_for(p), policy_.steps_forward);
      version = own.forward;
      break;
    case WeightsOf::ahead:
      version = predict(p, weights_.version_for(p), policy_.steps_forward);
      break;
    case WeightsOf::newest:
    case WeightsOf::forward:
      version = weights_.version_for(p);
      break;
  }
  if (policy_.backward == WeightsOf::forward) {
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
    case WeightsOf::ahead_at_first:
      if (!own.backward) own.backward = predict(p, weights_.newest(), policy_.steps_backward);
      kept = own.backward;
      break;
    case WeightsOf::ahead:
      kept = predict(p, weights_.newest(), policy_.steps_backward);
      break;
    case WeightsOf::newest:
    case WeightsOf::minibatch:
    case WeightsOf::forward:
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
  return weights_.everything();
}

void PassWeights::minibatch_done(Minibatch p) { of_.erase(p); }

}  // namespace hetpipe
