// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/optimizer.h"

#include "base/index.h"

namespace hetpipe {
namespace {

std::vector<std::int64_t> counts_of(const std::vector<OptimizedParameter>& parameters) {
  std::vector<std::int64_t> counts;
  for (const OptimizedParameter& parameter : parameters) counts.push_back(parameter.count);
  return counts;
}

}  // namespace

Optimizer::Optimizer(OptimizerOptions options, Device& device, Stream& stream,
                     const std::vector<OptimizedParameter>& parameters)
    : options_(std::move(options)),
      traits_(optimizer_named(options_.name)),
      device_(device),
      stream_(stream),
      squares_(device, stream, counts_of(parameters)) {
  for (const OptimizedParameter& parameter : parameters) {
    if (parameter.count > 0) add_run(parameter, count_);
    if (options_.damping > 0 && parameter.matrix.rows > 0 && !parameter.frozen) {
      damped_.push_back({count_, parameter.matrix});
    }
    count_ += parameter.count;
  }
  for (std::size_t i = 0; i < traits_.slots.size(); ++i) {
    slots_.emplace_back(device, stream, at(count_) * sizeof(float), MemoryKind::optimizer);
    if (count_ > 0) device.fill(stream, slots_.back().as<float>(), 0, count_);
  }
  for (const Run& run : trained_) {
    if (run.matrix.rows == 0) continue;
    const std::pair sides{run.matrix.rows, run.matrix.columns};
    if (!orthogonal_.contains(sides)) {
      orthogonal_.try_emplace(sides, device, stream, sides.first, sides.second);
    }
  }
  if (options_.name == "lamb" || traits_.orthogonal) {
    trust_ = Buffer(device, stream, 2 * sizeof(double), MemoryKind::workspace);
    static constexpr double kOne = 1;  // for as long as the copy may take
    device.copy(stream, trust_.data(), reinterpret_cast<const std::byte*>(&kOne), sizeof kOne);
  }
}

void Optimizer::add_run(const OptimizedParameter& parameter, std::int64_t first) {
  const Run own{.first = first,
                .count = parameter.count,
                .decays = parameter.decays && options_.weight_decay > 0,
                .rate = parameter.rate,
                .matrix = traits_.orthogonal ? parameter.matrix : DampedMatrix()};
  std::vector<Run>& runs = parameter.frozen ? frozen_ : trained_;
  const auto continues = [&](const Run& last) {
    if (last.first + last.count != first) return false;
    if (parameter.frozen) return true;
    // These take each parameter by itself.
    return options_.name != "lamb" && !traits_.orthogonal && last.decays == own.decays &&
           last.rate == own.rate;
  };
  if (!runs.empty() && continues(runs.back())) {
    runs.back().count += parameter.count;
  } else {
    runs.push_back(own);
  }
}

double Optimizer::learning_rate(Minibatch p) const {
  return rate_at(options_.schedule, options_.learning_rate, p);
}

void Optimizer::prepare() {
  for (auto& [sides, orthogonalizer] : orthogonal_) {
    const std::int64_t count = sides.first * sides.second;
    const Buffer nothing(device_, stream_, at(count) * sizeof(float), MemoryKind::workspace);
    device_.fill(stream_, nothing.as<float>(), 0, count);
    orthogonalizer.apply(nothing.as<float>(), 1);
  }
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
  for (const Matrix& matrix : damped_) {
    device_.damp(stream_, gradient.as<float>() + matrix.first, matrix.form,
                 {static_cast<float>(options_.damping), options_.damped_directions, step});
  }
  if (looks_ahead_ && traits_.predicts_by_last_update) {
    if (!last_update_) {
      last_update_ = Buffer(device_, stream_, gradient.bytes(), MemoryKind::optimizer);
    }
    device_.copy(stream_, last_update_.data(), gradient.data(), gradient.bytes());
  }
}

float Optimizer::decay_of(const Run& run) const {
  return run.decays ? static_cast<float>(options_.weight_decay) : 0.0f;
}

AdamOptions Optimizer::adam(const Run& run, double rate) const {
  return {.rate = static_cast<float>(rate),
          .beta1 = static_cast<float>(options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .epsilon = static_cast<float>(options_.epsilon),
          .weight_decay = decay_of(run),
          .decoupled = traits_.decoupled,
          .nu = static_cast<float>(options_.nu)};
}

// Of these parameters.
void Optimizer::apply(const Run& run, Minibatch p, std::int64_t step, float* gradient,
                      const float* weights) {
  float* const g = gradient + run.first;
  weights += run.first;
  const auto slot = [&](std::size_t i) { return slots_[i].as<float>() + run.first; };
  const double rate = learning_rate(p) * run.rate;
  if (traits_.orthogonal) return apply_orthogonal(run, rate, g, weights);
  if (options_.name == "lamb") {
    device_.adam(stream_, g, slot(0), slot(1), g, weights, adam(run, 1), step, run.count);
    double* const squares = trust_.as<double>();
    device_.sum_of_squares(stream_, squares, weights, run.count);
    device_.sum_of_squares(stream_, squares + 1, g, run.count);
    device_.scale_by_trust(stream_, g, squares, static_cast<float>(rate), run.count);
    return;
  }
  if (traits_.moments) {
    device_.adam(stream_, g, slot(0), slot(1), g, weights, adam(run, rate), step, run.count);
    return;
  }
  if (traits_.alpha) {
    device_.rmsprop(stream_, g, slot(0), g, weights,
                    {.rate = static_cast<float>(rate),
                     .alpha = static_cast<float>(options_.alpha),
                     .epsilon = static_cast<float>(options_.epsilon),
                     .weight_decay = decay_of(run)},
                    run.count);
    return;
  }
  device_.sgd(stream_, g, traits_.momentum ? slot(0) : nullptr, g, weights,
              {.rate = static_cast<float>(rate),
               .momentum = traits_.momentum ? static_cast<float>(options_.momentum) : 0.0f,
               .weight_decay = decay_of(run),
               .nesterov = traits_.momentum && options_.nesterov},
              run.count);
}

void Optimizer::apply_orthogonal(const Run& run, double rate, float* g, const float* weights) {
  device_.sgd(stream_, g, slots_[0].as<float>() + run.first, g, weights,
              {.rate = 1, .momentum = static_cast<float>(options_.momentum), .nesterov = true},
              run.count);
  const DampedMatrix& of = run.matrix;
  const float length = orthogonal_scale(of.rows > 0 ? of.rows : run.count, of.columns);
  const float by = static_cast<float>(rate) * length;
  if (of.rows > 0) {
    orthogonal_.at({of.rows, of.columns}).apply(g, by);
  } else {
    double* const squares = trust_.as<double>();
    device_.sum_of_squares(stream_, squares + 1, g, run.count);
    device_.scale_by_trust(stream_, g, squares, by, run.count);
  }
  if (!run.decays) return;
  Buffer decay(device_, stream_, at(run.count) * sizeof(float), MemoryKind::workspace);
  device_.copy(stream_, decay.data(), reinterpret_cast<const std::byte*>(weights), decay.bytes());
  device_.scale(stream_, decay.as<float>(),
                -(static_cast<float>(rate) * static_cast<float>(options_.weight_decay)), run.count);
  device_.add(stream_, g, decay.as<float>(), run.count);
}

void Optimizer::prepare_to_look_ahead() { looks_ahead_ = true; }

void Optimizer::look_ahead(Minibatch p, int steps, std::int64_t updates, const float* weights,
                           float* ahead) {
  if (count_ == 0) return;
  const auto copy = [&](const Run& run) {
    device_.copy(stream_, reinterpret_cast<std::byte*>(ahead + run.first),
                 reinterpret_cast<const std::byte*>(weights + run.first),
                 at(run.count) * sizeof(float));
  };
  if (traits_.predicts_by_last_update ? !last_update_ : updates == 0) {
    copy({.first = 0, .count = count_});
    return;
  }
  if (traits_.predicts_by_last_update) {
    device_.look_ahead(stream_, ahead, weights, last_update_.as<float>(),
                       static_cast<float>(-steps), count_);
    return;
  }
  for (const Run& run : frozen_) copy(run);
  for (const Run& run : trained_) {
    look_along_state(run, learning_rate(p) * run.rate, steps, updates, weights, ahead);
  }
}

void Optimizer::look_along_state(const Run& run, double rate, int steps, std::int64_t updates,
                                 const float* weights, float* ahead) {
  const auto factor = static_cast<float>(steps * rate);
  const auto slot = [&](std::size_t i) { return slots_[i].as<float>() + run.first; };
  weights += run.first;
  ahead += run.first;
  if (traits_.moments) {
    device_.look_ahead_adam(stream_, ahead, weights, slot(0), slot(1), adam(run, rate), updates,
                            factor, run.count);
  } else {
    device_.look_ahead(stream_, ahead, weights, slot(0), factor, run.count);
  }
}

void Optimizer::load_slot(std::size_t slot, std::span<const float> values) {
  ensure(static_cast<std::int64_t>(values.size()) == count_, "optimizer state of another size");
  device_.copy(stream_, slots_[slot].data(), reinterpret_cast<const std::byte*>(values.data()),
               values.size_bytes());
}

}  // namespace hetpipe
