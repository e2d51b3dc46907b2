// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"

// Optimizer steps and weight predictions as loops over floats, written from the equations. Products
// and sums are rounded one by one, in the order in which they stand here.
namespace hetpipe {

using Floats = std::vector<float>;

struct SerialOptimizer {
  std::string name = "sgd-momentum";  // sgd, sgd-momentum, adam
  float rate = 0.01f;
  float momentum = 0.9f;  // of sgd-momentum
  float weight_decay = 0;
  std::function<double(Minibatch)> rate_of{};  // instead of rate, where it changes
  double clip_norm = 0;                        // 0: nothing is clipped
  enum class Clips { stage, wave, global };
  Clips clips = Clips::stage;

  double rate_at(Minibatch p) const { return rate_of ? rate_of(p) : static_cast<double>(rate); }
};

// The state of one optimizer, after some steps.
class SerialSteps {
 public:
  SerialSteps(SerialOptimizer optimizer, std::size_t count);

  // The weight change of a step, counted from 1, with the rate of minibatch p: `weights` are for
  // the decay alone.
  //   sgd           g' = g + decay w;  delta = -(rate g')
  //   sgd-momentum  v = momentum v + g';  delta = -(rate v)
  //   adam          m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2;
  //                 delta = -(rate (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + epsilon))
  Floats delta(const Floats& gradient, const Floats& weights,
                           std::int64_t step, Minibatch p);

  // weights + ahead * the direction of the newest step (SpecTrain: arXiv 1809.02839, XPipe:
  // 1911.04610), with f = float(ahead * rate of p):
  //   sgd           w + ahead * newest delta
  //   sgd-momentum  w - f v
  //   adam          w - f (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + epsilon)
  // Before the first step: the weights themselves.
  Floats predicted(const Floats& weights, int ahead, Minibatch p) const;

  const std::vector<Floats>& slots() const { return slots_; }

 private:
  struct Adam {
    float rest1, rest2, bias1, bias2;
    float direction(float rate, float m, float v) const;
  };
  static Adam adam(std::int64_t step);

  SerialOptimizer optimizer_;
  std::vector<Floats> slots_;  // velocity; first and second moment
  Floats newest_;
  std::int64_t step_ = 0;  // the newest
};

}  // namespace hetpipe
