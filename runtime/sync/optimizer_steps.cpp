// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/optimizer_steps.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace hetpipe {

OptimizerSteps::OptimizerSteps(const Setup& setup, const WaveRules& rules,
                               std::unique_ptr<Device> device)
    : rules_(rules),
      of_stages_(setup.of_stages),
      ahead_(static_cast<float>(setup.ahead)),
      device_(std::move(device)),
      stream_(device_->make_stream()) {
  ensure(device_->host_memory(), "servers compute in the host's memory");
  std::size_t first = 0;
  for (const std::vector<OptimizedParameter>& parameters : setup.parameters) {
    const std::int64_t count = std::accumulate(
        parameters.begin(), parameters.end(), std::int64_t{0},
        [](std::int64_t sum, const OptimizedParameter& one) { return sum + one.count; });
    if (count == 0) continue;
    layers_.push_back(
        {first, static_cast<std::size_t>(count),
         std::make_unique<Optimizer>(setup.optimizer, *device_, *stream_, parameters)});
    first += static_cast<std::size_t>(count);
  }
}

void OptimizerSteps::make(Wave wave, std::span<const float> before, std::span<float> next,
                          State& state, const std::function<void()>& between) {
  const Minibatch first = wave * rules_.length();
  const Minibatch end =
      std::min(first + rules_.length(), *std::max_element(rules_.end.begin(), rules_.end.end()));
  ensure(first < end, "a wave without minibatches");
  double rates = 0;
  for (Minibatch p = first; p < end; ++p) {
    rates += rate_at(of_stages_.schedule, of_stages_.learning_rate, p);
  }
  // A rate of 0 changes nothing, and says nothing of the gradient.
  const auto by = static_cast<float>(rates > 0 ? -1 / rates : 0);
  for (float& change : next) change *= by;
  for (Layer& layer : layers_) {
    make_layer(layer, wave, end - 1, before, next, state);
    between();
  }
}

// In place: the device computes in the host's memory.
void OptimizerSteps::make_layer(Layer& layer, Wave wave, Minibatch newest,
                                std::span<const float> before, std::span<float> next,
                                State& state) {
  const auto part = [&layer](auto& values) {
    return std::span(values).subspan(layer.first, layer.count);
  };
  const auto buffer = [&](std::span<float> values, MemoryKind kind) {
    return Buffer(*device_, *stream_, reinterpret_cast<std::byte*>(values.data()),
                  values.size_bytes(), kind, nobody_);
  };
  std::vector<Buffer> slots;
  for (std::size_t s = 0; s + 1 < state.size(); ++s) {
    slots.push_back(buffer(part(state[s]), MemoryKind::optimizer));
  }
  layer.optimizer->use_slots(std::move(slots));
  Buffer gradient = buffer(part(next), MemoryKind::gradients);
  layer.optimizer->update(newest, rules_.updates_done_by_wave(wave) + 1, gradient,
                          before.data() + layer.first);
  stream_->synchronize();
  const std::span<const float> old = part(before);
  const std::span<float> weights = part(next), newest_step = part(state.back());
  for (std::size_t e = 0; e < layer.count; ++e) {
    const float change = weights[e];
    weights[e] = old[e] + change + ahead_ * (change - newest_step[e]);
    newest_step[e] = change;
  }
}

}  // namespace hetpipe
