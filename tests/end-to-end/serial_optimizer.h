// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/model/parameters.h"

// Optimizer steps and weight predictions as loops over floats, written from the equations. Products
// and sums are rounded one by one, in the order in which they stand here.
namespace hetpipe {

using Floats = std::vector<float>;

struct SerialOptimizer {
  std::string name = "sgd-momentum";  // sgd, sgd-momentum, rmsprop, adam, adamw, lamb, muon
  float rate = 0.01f;
  float momentum = 0.9f;  // of sgd-momentum
  float weight_decay = 0;
  std::function<double(Minibatch)> rate_of{};  // instead of rate, where it changes
  double clip_norm = 0;                        // 0: nothing is clipped
  enum class Clips { stage, wave, global };
  Clips clips = Clips::stage;
  bool nesterov = false;  // of sgd-momentum
  float beta1 = 0.9f;     // of adam, adamw, lamb
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float alpha = 0.99f;  // of rmsprop
  float nu = 1;
  float damping = 0;  // of matrices
  int damped_directions = 1;
  bool vectors_decay = true;  // parameters of one dimension as well
  // Of a parameter by its name: a factor of its rate; absent: 1.
  std::function<double(const std::string&)> factor_of{};

  double rate_at(Minibatch p) const { return rate_of ? rate_of(p) : static_cast<double>(rate); }
};

// The state of one optimizer, after some steps.
class SerialSteps {
 public:
  // Of parameters as they lie in a layout. `slots`: the state it starts from; absent: zeros.
  SerialSteps(SerialOptimizer optimizer, const ParameterLayout& layout,
              std::vector<Floats> slots = {});
  // Of one parameter that decays.
  SerialSteps(SerialOptimizer optimizer, std::size_t count);

  // The weight change of a step, counted from 1, with the rate of minibatch p times the parameter's
  // factor: `weights` are for the decay and for norms alone. decay = 0 where a parameter has none.
  //   sgd           g' = g + decay w;  delta = -(rate g')
  //   sgd-momentum  v = momentum v + g';  delta = -(rate v);  Nesterov: -(rate (g' + momentum v))
  //   adam          m = b1 m + (1-b1) g';  v = b2 v + (1-b2) g'^2;
  //                 delta = -(rate (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + epsilon))
  //   adamw         m, v of g;  delta = -(the same + rate decay w)
  //   muon          v = momentum v + g;  d = -(g + momentum v);  delta = d's directions, all as
  //   long
  //                 (five steps X = a X + (b A + c A^2) X with A = X X^T from d / |d|, X no higher
  //                 than wide), or d / |d| where it is no matrix, times rate 0.2 sqrt(longer side);
  //                 less (rate decay) w
  // Of a matrix d, damped, for direction k below damped_directions and half of the shorter side
  // (one at least): y = d s, x = d^T y over its norm, z = d x, d = d - (damping z) x^T. Sums along
  // rows by 32 lanes, down columns by blocks of 64 rows. s_i is 1 for k = 0, else the last bit (1:
  // 1, 0: -1) of SplitMix64's mixing of i + 2^24 step + 2^56 k.
  //   lamb          m, v of g;  u = adamw's at rate 1;  delta = -(u (rate |w| / |u|)), and
  //                 -(u rate) where a norm is 0: of each parameter, squares as for clipping
  Floats delta(const Floats& gradient, const Floats& weights, std::int64_t step, Minibatch p);

  // weights + ahead * the direction of the newest step (SpecTrain: arXiv 1809.02839, XPipe:
  // 1911.04610), with f = float(ahead * rate of p and the parameter):
  //   sgd, lamb     w + ahead * newest delta
  //   sgd-momentum  w - f v
  //   adam          w - f (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + epsilon)
  //   adamw         w - (the same + f decay w)
  // Before the first step: the weights themselves.
  Floats predicted(const Floats& weights, int ahead, Minibatch p) const;

  const std::vector<Floats>& slots() const { return slots_; }

 private:
  struct Parameter {
    std::size_t first, count;
    float decay;
    double factor;
    std::size_t rows = 0, columns = 0;
    bool inputs_first = false;
  };
  struct Adam {
    float rest1, rest2, bias1, bias2;
  };
  Adam adam(std::int64_t step) const;
  bool has(const char* name) const { return optimizer_.name == name; }
  bool has_moments() const { return has("adam") || has("adamw") || has("lamb"); }
  float direction(const Adam& factors, float rate, std::size_t i) const;
  void step_of(const Parameter& of, const Floats& gradient, const Floats& weights, float rate,
               const Adam& factors, Floats& result);
  void muon(const Parameter& of, const Floats& gradient, const Floats& weights, float rate,
            Floats& result);
  void damp(const Parameter& of, std::int64_t step, Floats& result) const;
  static void trust(const Parameter& of, const Floats& weights, float rate, Floats& result);

  SerialOptimizer optimizer_;
  std::vector<Parameter> parameters_;
  std::vector<Floats> slots_;  // velocity; first and second moment
  Floats newest_;
  std::int64_t step_ = 0;  // the newest
};

}  // namespace hetpipe
