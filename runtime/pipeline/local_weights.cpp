// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/local_weights.h"

#include <algorithm>

namespace hetpipe {
namespace {

constexpr std::int64_t kWidened = std::int64_t{256} << 10;  // numbers at a time

}  // namespace

LocalWeights::LocalWeights(Device& device, Stream& stream, const WaveRules& rules, Visible visible,
                           std::span<const float> initial, ElementType pushed)
    : device_(device),
      stream_(stream),
      rules_(rules),
      visible_(visible),
      pushed_(pushed),
      count_(static_cast<std::int64_t>(initial.size())),
      updated_(rules.start_minibatch()),
      seen_(rules.start_minibatch()),
      next_(rules.start_minibatch()),
      current_(std::make_shared<WeightVersion>()) {
  current_->label = rules.first_wave;
  current_->values = upload(initial, MemoryKind::weights);
}

LocalWeights::LocalWeights(Device& device, Stream& stream, const WaveRules& rules,
                           const ExactWeights& exact, ElementType pushed)
    : LocalWeights(device, stream, rules, Visible::exactly, exact.base, pushed) {
  current_->label = exact.label;
  const Wave next = rules.start_wave();
  const std::vector<Minibatch> minibatches = rules.single_updates(rules.start_minibatch());
  ensure(exact.label == rules.bound_label(rules.last_gate(rules.start_minibatch() - 1)) &&
             static_cast<Label>(exact.own_waves.size()) == next - rules.bound_label(next) &&
             exact.updates.size() == minibatches.size(),
         "an exact state of another place");
  if (!minibatches.empty()) seen_ = minibatches.front();
  for (std::size_t u = 0; u < minibatches.size() && count_ > 0; ++u) {
    const auto delta =
        std::make_shared<const Buffer>(upload(exact.updates[u], MemoryKind::gradients));
    kept_back_.push_back({minibatches[u], delta});
    if (exact.wave_sum.empty() && rules.wave_of(minibatches[u]) == next) add_to_wave(*delta);
  }
  if (!exact.wave_sum.empty()) add_to_wave(upload(exact.wave_sum, MemoryKind::messages));
  Wave wave = rules.bound_label(next);
  for (const auto& sum : exact.own_waves) {
    own_waves_.push_back(
        {wave++, std::make_shared<const Buffer>(rounded(upload(sum, MemoryKind::messages)))});
  }
}

// Of a stage without parameters: all of this is empty.
Buffer LocalWeights::upload(std::span<const float> values, MemoryKind kind) {
  Buffer buffer(device_, stream_, values.size_bytes(), kind);
  if (!values.empty()) {
    device_.copy(stream_, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
                 buffer.bytes());
  }
  return buffer;
}

Minibatch LocalWeights::first_unseen(Minibatch p) const {
  switch (visible_) {
    case Visible::exactly:
      return rules_.visible_updates(p);
    case Visible::one_wave_late:
      return (rules_.wave_of(p) - 1) * rules_.in_flight;
    case Visible::at_once:
      break;
  }
  return updated_;
}

std::shared_ptr<const WeightVersion> LocalWeights::version_for(Minibatch p) {
  ensure(!has_let_go(), "weights are asked for before the snapshot that they rest on");
  make_visible_below(first_unseen(p));
  next_ = p + 1;
  return current_;
}

void LocalWeights::make_visible(Next next) {
  make_visible_below(next == Next::nothing ? updated_ : first_unseen(next_));
}

void LocalWeights::make_visible_below(Minibatch unseen) {
  while (!kept_back_.empty() && kept_back_.front().minibatch < unseen) {
    add_to_current(*kept_back_.front().delta);
    seen_ = kept_back_.front().minibatch + 1;
    kept_back_.pop_front();
  }
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

std::shared_ptr<const WeightVersion> LocalWeights::everything() {
  ensure(!has_let_go(), "weights are asked for before the snapshot that they rest on");
  if (kept_back_.empty()) return current_;
  auto all = std::make_shared<WeightVersion>();
  all->values = Buffer(device_, stream_, bytes(), MemoryKind::workspace);
  all->label = current_->label;
  copy_everything(0, count_, all->values.as<float>());
  return all;
}

void LocalWeights::copy_everything(std::int64_t first, std::int64_t count, float* to) {
  if (count == 0) return;
  device_.copy(stream_, reinterpret_cast<std::byte*>(to),
               reinterpret_cast<const std::byte*>(current_->values.as<float>() + first),
               static_cast<std::size_t>(count) * sizeof(float));
  for (const Update& update : kept_back_) {
    device_.add(stream_, to, update.delta->as<float>() + first, count);
  }
}

void LocalWeights::add_to_wave(const Buffer& delta) {
  if (wave_sum_started_) {
    device_.add(stream_, wave_sum_.as<float>(), delta.as<float>(), count_);
    return;
  }
  wave_sum_ = pushed_ == ElementType::fp32
                  ? memory_of_push(bytes())
                  : Buffer(device_, stream_, bytes(), MemoryKind::messages);
  device_.copy(stream_, wave_sum_.data(), delta.data(), bytes());
  wave_sum_started_ = true;
}

Buffer LocalWeights::memory_of_push(std::size_t bytes) {
  return push_memory_ ? push_memory_(bytes) : Buffer(device_, stream_, bytes, MemoryKind::messages);
}

// A sum as it is pushed.
Buffer LocalWeights::rounded(Buffer sum) {
  if (pushed_ == ElementType::fp32 || count_ == 0) return sum;
  Buffer push = memory_of_push(static_cast<std::size_t>(count_) * bytes_of(pushed_));
  device_.convert(stream_, push.data(), pushed_, sum.data(), ElementType::fp32, count_);
  return push;
}

void LocalWeights::each_float(const Buffer& pushed, const UseFloats& use) {
  if (count_ == 0) return;
  if (pushed_ == ElementType::fp32) return use(0, count_, pushed.as<float>());
  // No more than a push takes: the one that has just gone left room for so many.
  const std::int64_t most = std::min(kWidened, (count_ + 1) / 2);
  Buffer floats(device_, stream_, static_cast<std::size_t>(most) * sizeof(float),
                MemoryKind::workspace);
  for (std::int64_t first = 0; first < count_; first += most) {
    const std::int64_t some = std::min(most, count_ - first);
    device_.convert(stream_, floats.data(), ElementType::fp32,
                    pushed.data() + static_cast<std::size_t>(first) * bytes_of(pushed_), pushed_,
                    some);
    use(first, some, floats.as<float>());
  }
}

void LocalWeights::computed(Minibatch q, Buffer delta, WaveSums wave_sums) {
  updated_ = q + 1;
  if (visible_ == Visible::at_once) seen_ = updated_;
  if (count_ == 0) return;
  if (wave_sums == WaveSums::yes) add_to_wave(delta);
  if (visible_ == Visible::at_once) {
    add_to_current(delta);
    return;
  }
  auto update = std::make_shared<const Buffer>(std::move(delta));
  if (kept_) kept_->updates.push_back({q, update});
  kept_back_.push_back({q, std::move(update)});
}

std::shared_ptr<const Buffer> LocalWeights::end_wave(Wave wave,
                                                     const std::function<void(Buffer&)>& limit) {
  ensure(wave_sum_started_ || count_ == 0, "a wave without updates ends");
  if (limit && count_ > 0) limit(wave_sum_);
  auto sum = std::make_shared<const Buffer>(rounded(std::move(wave_sum_)));
  wave_sum_started_ = false;
  own_waves_.push_back({wave, sum});
  return sum;
}

void LocalWeights::let_go(Wave gate, Label label) {
  const Wave held = rules_.by_arrival() ? gate : label;  // own waves that the snapshot has
  while (!own_waves_.empty() && own_waves_.front().wave < held) own_waves_.pop_front();
  // Own updates of waves below the gate's are in the snapshot, or in waves that are added to it.
  while (!kept_back_.empty() && rules_.wave_of(kept_back_.front().minibatch) < gate) {
    kept_back_.pop_front();
  }
  const Label before = current_->label;
  current_ = std::make_shared<WeightVersion>();
  current_->label = before;
}

void LocalWeights::rebase(Wave wave, Label label, Buffer snapshot) {
  let_go(wave, label);
  current_->values = std::move(snapshot);
  current_->label = label;
  for (const OwnWave& own : own_waves_) {
    if (own.wave >= wave) break;
    each_float(*own.sum, [&](std::int64_t first, std::int64_t count, const float* floats) {
      device_.add(stream_, current_->values.as<float>() + first, floats, count);
    });
  }
  if (visible_ == Visible::at_once && wave_sum_started_) {  // those of `wave` so far
    device_.add(stream_, current_->values.as<float>(), wave_sum_.as<float>(), count_);
  }
}

void LocalWeights::keep_exact() { kept_ = Kept{current_, {kept_back_.begin(), kept_back_.end()}}; }

std::vector<float> LocalWeights::download(const Buffer& buffer) {
  std::vector<float> values(static_cast<std::size_t>(count_));
  device_.copy(stream_, reinterpret_cast<std::byte*>(values.data()), buffer.data(), bytes());
  return values;
}

std::optional<ExactWeights> LocalWeights::exact(Wave wave) {
  if (!kept_) return std::nullopt;
  ExactWeights state = exact_of(*kept_, (wave + 1) * rules_.length());
  kept_.reset();
  return state;
}

ExactWeights LocalWeights::exact_inside() {
  ExactWeights state = exact_of({current_, {kept_back_.begin(), kept_back_.end()}}, updated_);
  if (rules_.round > 1 && wave_sum_started_) state.wave_sum = download(wave_sum_);
  return state;
}

// Before minibatch p.
ExactWeights LocalWeights::exact_of(const Kept& kept, Minibatch p) {
  ExactWeights state{.label = kept.base->label,
                     .base = download(kept.base->values),
                     .updates = {},
                     .own_waves = {}};
  auto next = kept.updates.begin();
  for (const Minibatch q : rules_.single_updates(p)) {
    std::vector<float>& update = state.updates.emplace_back();
    if (count_ == 0) continue;
    next = std::find_if(next, kept.updates.end(),
                        [&](const Update& one) { return one.minibatch == q; });
    ensure(next != kept.updates.end(), "an update is missing that a continuation needs");
    update = download(*next->delta);
  }
  for (const OwnWave& own : own_waves_) {  // that a gate may still ask for
    if (own.wave < rules_.bound_label(rules_.wave_of(p))) continue;
    std::vector<float>& values = state.own_waves.emplace_back(static_cast<std::size_t>(count_));
    each_float(*own.sum, [&](std::int64_t first, std::int64_t count, const float* floats) {
      device_.copy(stream_, reinterpret_cast<std::byte*>(values.data() + first),
                   reinterpret_cast<const std::byte*>(floats),
                   static_cast<std::size_t>(count) * sizeof(float));
    });
  }
  return state;
}

}  // namespace hetpipe
