// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/optimizer.h"

#include <numeric>

#include "base/text.h"

namespace hetpipe {

std::vector<std::string> optimizer_slot_names(const std::string& optimizer) {
  if (optimizer == "sgd") return {};
  if (optimizer == "sgd-momentum") return {"velocity"};
  if (optimizer == "adam") return {"first_moment", "second_moment"};
  const std::vector<std::string> known{"sgd", "sgd-momentum", "adam"};
  throw UserError("optimizer", unknown("optimizer", optimizer, known) + ". Choose a known one.");
}

Optimizer::Optimizer(OptimizerOptions options, Device& device, Stream& stream,
                     std::vector<std::int64_t> counts, const std::vector<bool>& frozen)
    : options_(std::move(options)),
      device_(device),
      stream_(stream),
      count_(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})),
      squares_(device, stream, counts) {
  std::int64_t first = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::vector<Run>& runs = !frozen.empty() && frozen[i] ? frozen_ : trained_;
    if (!runs.empty() && runs.back().first + runs.back().count == first) {
      runs.back().count += counts[i];
    } else if (counts[i] > 0) {
      runs.push_back({first, counts[i]});
    }
    first += counts[i];
  }
  for (std::size_t i = 0; i < optimizer_slot_names(options_.name).size(); ++i) {
    slots_.emplace_back(device, stream, static_cast<std::size_t>(count_) * sizeof(float),
                        MemoryKind::optimizer);
    if (count_ > 0) device.fill(stream, slots_.back().as<float>(), 0, count_);
  }
}

double Optimizer::learning_rate(Minibatch p) const {
  return rate_at(options_.schedule, options_.learning_rate, p);
}

void Optimizer::drop_frozen(Buffer& gradient) {
  for (const Run& run : frozen_) {
    device_.fill(stream_, gradient.as<float>() + run.first, 0, run.count);
  }
}

std::span<const double> Optimizer::measure(Buffer& gradient) {
  drop_frozen(gradient);
  squares_.measure(gradient.as<float>());
  return squares_.download();
}

void Optimizer::limit_wave(Minibatch first, Minibatch last, Buffer& sum) {
  if (!options_.clipping.at(ClipScope::wave)) return;
  double rates = 0;
  for (Minibatch p = first; p <= last; ++p) rates += learning_rate(p);
  squares_.limit(sum, options_.clipping.max_norm * rates);
}

void Optimizer::update(Minibatch p, std::int64_t step, Buffer& gradient, const float* weights,
                       std::optional<float> clip_factor) {
  const bool global = options_.clipping.at(ClipScope::global);
  ensure(global == clip_factor.has_value(), "global clipping, and a factor of all stages");
  if (count_ == 0) return;
  drop_frozen(gradient);
  if (clip_factor && *clip_factor < 1) {
    device_.scale(stream_, gradient.as<float>(), *clip_factor, count_);
  }
  if (options_.clipping.at(ClipScope::stage)) squares_.limit(gradient, options_.clipping.max_norm);
  for (const Run& run : trained_) apply(run, p, step, gradient.as<float>(), weights);
  if (looks_ahead_ && options_.name == "sgd") {
    if (!last_update_) {
      last_update_ = Buffer(device_, stream_, gradient.bytes(), MemoryKind::optimizer);
    }
    device_.copy(stream_, last_update_.data(), gradient.data(), gradient.bytes());
  }
}

// Of these parameters.
void Optimizer::apply(const Run& run, Minibatch p, std::int64_t step, float* gradient,
                      const float* weights) {
  float* const g = gradient + run.first;
  weights += run.first;
  const auto slot = [&](std::size_t i) { return slots_[i].as<float>() + run.first; };
  const auto rate = static_cast<float>(learning_rate(p));
  const auto decay = static_cast<float>(options_.weight_decay);
  if (options_.name == "adam") {
    device_.adam(stream_, g, slot(0), slot(1), g, weights, {.rate = rate, .weight_decay = decay},
                 step, run.count);
    return;
  }
  const bool heavy = options_.name == "sgd-momentum";
  device_.sgd(stream_, g, heavy ? slot(0) : nullptr, g, weights,
              {.rate = rate,
               .momentum = heavy ? static_cast<float>(options_.momentum) : 0.0f,
               .weight_decay = decay},
              run.count);
}

void Optimizer::prepare_to_look_ahead() { looks_ahead_ = true; }

void Optimizer::look_ahead(Minibatch p, int steps, std::int64_t updates, const float* weights,
                           float* ahead) {
  if (count_ == 0) return;
  const double rate = learning_rate(p);
  const auto factor = static_cast<float>(steps * rate);
  if (options_.name == "adam" && updates > 0) {
    device_.look_ahead_adam(stream_, ahead, weights, slots_[0].as<float>(), slots_[1].as<float>(),
                            {.rate = static_cast<float>(rate)}, updates, factor, count_);
  } else if (options_.name == "sgd-momentum") {
    device_.look_ahead(stream_, ahead, weights, slots_[0].as<float>(), factor, count_);
  } else if (options_.name == "sgd" && last_update_) {
    device_.look_ahead(stream_, ahead, weights, last_update_.as<float>(),
                       static_cast<float>(-steps), count_);
  } else {
    device_.copy(stream_, reinterpret_cast<std::byte*>(ahead),
                 reinterpret_cast<const std::byte*>(weights),
                 static_cast<std::size_t>(count_) * sizeof(float));
  }
}

void Optimizer::load_slot(std::size_t slot, std::span<const float> values) {
  ensure(static_cast<std::int64_t>(values.size()) == count_, "optimizer state of another size");
  device_.copy(stream_, slots_[slot].data(), reinterpret_cast<const std::byte*>(values.data()),
               values.size_bytes());
}

}  // namespace hetpipe
