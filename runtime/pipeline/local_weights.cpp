// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/local_weights.h"

namespace hetpipe {

LocalWeights::LocalWeights(Device& device, Stream& stream, const WaveRules& rules,
                           std::span<const float> initial)
    : device_(device),
      stream_(stream),
      rules_(rules),
      count_(static_cast<std::int64_t>(initial.size())),
      current_(std::make_shared<WeightVersion>()) {
  current_->values = Buffer(device, stream, bytes(), MemoryKind::weights);
  current_->label = rules.first_wave;
  if (count_ == 0) return;  // a stage without parameters: all of this is empty
  device.copy(stream, current_->values.data(), reinterpret_cast<const std::byte*>(initial.data()),
              bytes());
}

std::shared_ptr<const WeightVersion> LocalWeights::version_for(Minibatch p) {
  const Minibatch visible = rules_.visible_updates(p);
  while (!kept_back_.empty() && kept_back_.front().minibatch < visible) {
    add_to_current(kept_back_.front().delta);
    kept_back_.pop_front();
  }
  return current_;
}

void LocalWeights::add_to_current(const Buffer& delta) {
  if (current_.use_count() == 1) {
    device_.add(stream_, current_->values.as<float>(), delta.as<float>(), count_);
    return;
  }
  auto next = std::make_shared<WeightVersion>();
  next->values = Buffer(device_, stream_, bytes(), MemoryKind::versions);
  next->label = current_->label;
  device_.sum(stream_, next->values.as<float>(), current_->values.as<float>(), delta.as<float>(),
              count_);
  current_ = std::move(next);
}

void LocalWeights::computed(Minibatch q, Buffer delta) {
  if (count_ == 0) return;
  if (!wave_sum_started_) {
    wave_sum_ = Buffer(device_, stream_, bytes(), MemoryKind::messages);
    device_.copy(stream_, wave_sum_.data(), delta.data(), bytes());
    wave_sum_started_ = true;
  } else {
    device_.add(stream_, wave_sum_.as<float>(), delta.as<float>(), count_);
  }
  kept_back_.push_back({q, std::move(delta)});
}

std::shared_ptr<const Buffer> LocalWeights::end_wave(Wave wave) {
  ensure(wave_sum_started_ || count_ == 0, "a wave without updates ends");
  auto sum = std::make_shared<const Buffer>(std::move(wave_sum_));
  wave_sum_started_ = false;
  own_waves_.push_back({wave, sum});
  return sum;
}

void LocalWeights::rebase(Wave wave, Label label, Buffer snapshot) {
  auto next = std::make_shared<WeightVersion>();
  next->values = std::move(snapshot);
  next->label = label;
  while (!own_waves_.empty() && own_waves_.front().wave < label) own_waves_.pop_front();
  for (const OwnWave& own : own_waves_) {
    if (own.wave >= wave) break;
    device_.add(stream_, next->values.as<float>(), own.sum->as<float>(), count_);
  }
  // Own updates of waves below `wave` are now in the snapshot or in the waves just added.
  while (!kept_back_.empty() && rules_.wave_of(kept_back_.front().minibatch) < wave) {
    kept_back_.pop_front();
  }
  current_ = std::move(next);
}

}  // namespace hetpipe
