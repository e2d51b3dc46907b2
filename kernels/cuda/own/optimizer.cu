// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/optimizer.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/optimizer_step.h"

// Compiled without contraction: every element's float operations are those of the definition, in
// its order.
namespace hetpipe::cuda {
namespace {

constexpr int kFour = kPack<float>;

template <bool with_velocity>
struct Sgd {
  float* delta;
  float* velocity;
  const float* gradient;
  const float* weights;
  SgdOptions o;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto gradients = load<kFour>(gradient + i, left);
    const auto values = load<kFour>(weights + i, left);
    Pack<float, kFour> v{}, change;
    if constexpr (with_velocity) v = load<kFour>(velocity + i, left);
    HETPIPE_UNROLL
    for (int k = 0; k < kFour; ++k) {
      const float g = gradients.at[k] + o.weight_decay * values.at[k];
      v.at[k] = with_velocity ? o.momentum * v.at[k] + g : g;
      change.at[k] = -(o.rate * (o.nesterov ? g + o.momentum * v.at[k] : v.at[k]));
    }
    if constexpr (with_velocity) store(velocity + i, v, left);
    store(delta + i, change, left);
  }
};

// The direction over the second moment's root, and decoupled decay, as a change by `rate`.
HETPIPE_DEVICE float adam_change(const AdamStep& s, float rate, float direction, float second,
                                 float weight) {
  const float deviation = sqrtf(second / s.bias2);
  const float change = rate * direction / (deviation + s.epsilon);
  return s.decoupled ? change + (rate * s.decay) * weight : change;
}

struct Adam {
  float* delta;
  float* first;
  float* second;
  const float* gradient;
  const float* weights;
  AdamStep s;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto gradients = load<kFour>(gradient + i, left);
    const auto values = load<kFour>(weights + i, left);
    auto m = load<kFour>(first + i, left);
    auto v = load<kFour>(second + i, left);
    Pack<float, kFour> change;
    HETPIPE_UNROLL
    for (int k = 0; k < kFour; ++k) {
      const float g = s.decoupled ? gradients.at[k] : gradients.at[k] + s.decay * values.at[k];
      m.at[k] = s.beta1 * m.at[k] + s.rest1 * g;
      v.at[k] = s.beta2 * v.at[k] + s.rest2 * (g * g);
      change.at[k] = -adam_change(s, s.rate, s.direction(m.at[k], g), v.at[k], values.at[k]);
    }
    store(first + i, m, left);
    store(second + i, v, left);
    store(delta + i, change, left);
  }
};

struct Rmsprop {
  float* delta;
  float* second;
  const float* gradient;
  const float* weights;
  RmspropOptions o;
  float rest;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto gradients = load<kFour>(gradient + i, left);
    const auto values = load<kFour>(weights + i, left);
    auto v = load<kFour>(second + i, left);
    Pack<float, kFour> change;
    HETPIPE_UNROLL
    for (int k = 0; k < kFour; ++k) {
      const float g = gradients.at[k] + o.weight_decay * values.at[k];
      v.at[k] = o.alpha * v.at[k] + rest * (g * g);
      change.at[k] = -(o.rate * g / (sqrtf(v.at[k]) + o.epsilon));
    }
    store(second + i, v, left);
    store(delta + i, change, left);
  }
};

HETPIPE_KERNEL void trust_factor_kernel(const double* squares, float rate, float* factor) {
  *factor = trust_factor(squares, rate);
}

struct Trusted {
  float* update;
  const float* factor;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const float by = *factor;
    auto values = load<kFour>(update + i, left);
    HETPIPE_UNROLL
    for (int k = 0; k < kFour; ++k) values.at[k] *= by;
    store(update + i, values, left);
  }
};

struct Ahead {
  float factor;
  HETPIPE_DEVICE float operator()(float weight, float x) const { return weight - factor * x; }
};

struct AheadAdam {
  float* ahead;
  const float* weights;
  const float* first;
  const float* second;
  AdamStep s;
  float factor;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto values = load<kFour>(weights + i, left);
    const auto m = load<kFour>(first + i, left);
    const auto v = load<kFour>(second + i, left);
    Pack<float, kFour> to;
    HETPIPE_UNROLL
    for (int k = 0; k < kFour; ++k) {
      to.at[k] = values.at[k] - adam_change(s, factor, m.at[k] / s.bias1, v.at[k], values.at[k]);
    }
    store(ahead + i, to, left);
  }
};

}  // namespace

void sgd(float* delta, float* velocity, const float* gradient, const float* weights,
         const SgdOptions& options, std::int64_t count, On on) {
  ensure(velocity != nullptr || options.momentum == 0, "momentum needs a velocity");
  if (velocity == nullptr) {
    each<kFour>(Sgd<false>{delta, velocity, gradient, weights, options}, count, on);
  } else {
    each<kFour>(Sgd<true>{delta, velocity, gradient, weights, options}, count, on);
  }
}

void adam(float* delta, float* first, float* second, const float* gradient, const float* weights,
          const AdamOptions& options, std::int64_t step, std::int64_t count, On on) {
  ensure(step >= 1, "Adam's steps count from 1");
  each<kFour>(Adam{delta, first, second, gradient, weights, adam_step(options, step)}, count, on);
}

void rmsprop(float* delta, float* second, const float* gradient, const float* weights,
             const RmspropOptions& options, std::int64_t count, On on) {
  each<kFour>(Rmsprop{delta, second, gradient, weights, options, rest_of(options.alpha)}, count,
              on);
}

void scale_by_trust(float* update, const double* squares, float rate, std::int64_t count,
                    float* factor, On on) {
  if (count == 0) return;
  launch(trust_factor_kernel, 1, 1, on, squares, rate, factor);
  each<kFour>(Trusted{update, factor}, count, on);
}

void look_ahead(float* ahead, const float* weights, const float* x, float factor,
                std::int64_t count, On on) {
  map(Ahead{factor}, weights, x, ahead, count, on);
}

void look_ahead_adam(float* ahead, const float* weights, const float* first, const float* second,
                     const AdamOptions& options, std::int64_t step, float factor,
                     std::int64_t count, On on) {
  ensure(step >= 1, "Adam's steps count from 1");
  each<kFour>(AheadAdam{ahead, weights, first, second, adam_step(options, step), factor}, count,
              on);
}

}  // namespace hetpipe::cuda
