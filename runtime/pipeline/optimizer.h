// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "kernels/buffer.h"
#include "partitioner/plan/optimizer_rule.h"
#include "runtime/pipeline/clipping.h"
#include "runtime/pipeline/learning_rate.h"
#include "runtime/pipeline/orthogonal.h"
#include "runtime/pipeline/parameter_rules.h"

namespace hetpipe {

struct OptimizerOptions {
  std::string name = "sgd-momentum";  // of partitioner/plan/optimizer_rule.h
  double learning_rate = 0.01;
  double momentum = 0.9;  // of sgd-momentum, muon
  bool nesterov = false;  // of sgd-momentum
  double beta1 = 0.9;     // of adam, adamw, lamb
  double beta2 = 0.999;
  double alpha = 0.99;  // of rmsprop
  double nu = 1;        // of the momentum in the step, the rest is the gradient
  double epsilon = 1e-8;
  double damping = 0;         // share of a matrix's change in directions that Device::damp finds,
  int damped_directions = 1;  // so many
  double weight_decay = 0;
  bool vectors_decay = true;    // parameters of one dimension as well: biases, norms
  std::vector<RateOf> rates{};  // the first that covers a parameter holds
  double ema = 0;           // decay of the moving average of the weights; 0: none (WeightsAverage)
  RateSchedule schedule{};  // of the learning rate
  Clipping clipping{};
};
constexpr auto fields_of(Type<OptimizerOptions>) {
  return fields<&OptimizerOptions::name, &OptimizerOptions::learning_rate,
                &OptimizerOptions::momentum, &OptimizerOptions::nesterov, &OptimizerOptions::beta1,
                &OptimizerOptions::beta2, &OptimizerOptions::alpha, &OptimizerOptions::nu,
                &OptimizerOptions::epsilon, &OptimizerOptions::damping,
                &OptimizerOptions::damped_directions, &OptimizerOptions::weight_decay,
                &OptimizerOptions::vectors_decay, &OptimizerOptions::rates, &OptimizerOptions::ema,
                &OptimizerOptions::schedule, &OptimizerOptions::clipping>;
}

// The optimizer of one stage of one virtual worker; its state is local to both. It yields the
// applied weight change and leaves adding it to the owner of the weights.
class Optimizer {
 public:
  // For parameters that lie one after another in the flat arrays. UserError for an unknown
  // optimizer.
  Optimizer(OptimizerOptions options, Device& device, Stream& stream,
            const std::vector<OptimizedParameter>& parameters);
  Optimizer(const OptimizerOptions& options, Device& device, Stream& stream,
            const ParameterLayout& layout)
      : Optimizer(options, device, stream,
                  optimized_parameters(layout, options.vectors_decay, options.rates)) {}
  // Of one parameter with so many elements.
  Optimizer(OptimizerOptions options, Device& device, Stream& stream, std::int64_t count)
      : Optimizer(std::move(options), device, stream,
                  std::vector<OptimizedParameter>{{.count = count}}) {}

  // Overwrites `gradient` with the applied weight change of minibatch p, damped (Device::damp)
  // where the options say so: of each matrix, decoupled decay included. `weights` are those that
  // decay, and whose norms LAMB takes: what the gradient was taken at, as far as they are still
  // there (PassWeights::at_update). LAMB (arXiv 1904.00962, algorithm 2) makes Adam's step with
  // decoupled decay as long, parameter by parameter, as its weights are, times the rate (norms of
  // double sums in a fixed order: the same bits however the model is cut). Muon (torch.optim.Muon
  // with adjust_lr_fn="match_rms_adamw") makes each matrix's g + momentum v orthogonal
  // (Orthogonalizer), and each other parameter's a unit vector, times the rate and
  // orthogonal_scale(); decay is AdamW's. `step`: of Adam, from 1,
  // counted since the training's start (WaveRules); numbers of minibatches do not say it. The
  // gradient is clipped first: by itself (stage), or by the factor that all stages have agreed on
  // (global, which cannot do without).
  void update(Minibatch p, std::int64_t step, Buffer& gradient, const float* weights,
              std::optional<float> clip_factor = std::nullopt);

  // Does beforehand what the first update would hold up: enqueues work that changes nothing.
  void prepare();
  // For global clipping: squares of this gradient, per parameter; readable once the stream is done.
  std::span<const double> measure(Buffer& gradient);
  // The factor that follows from those of all stages.
  float clip_factor(std::span<const std::vector<double>> squares_of_stages) const {
    return clip_factor_of(squares_of_stages, options_.clipping.max_norm);
  }
  // Clips the sum of the weight changes of minibatches [first, last]; nothing where the scope is
  // another.
  void limit_wave(Minibatch first, Minibatch last, Buffer& sum);

  // Keeps what look_ahead needs besides the optimizer's state. Called before the first update.
  void prepare_to_look_ahead();
  // Weights `steps` updates ahead, predicted along the one applied last (SpecTrain: arXiv
  // 1809.02839; XPipe: arXiv 1911.04610): ahead = weights - steps * rate * direction, with the rate
  // of minibatch p and as direction the velocity (with Nesterov's momentum as well: it is what the
  // next updates share) or Adam's m^/(sqrt(v^) + epsilon). Decoupled decay goes on: of AdamW the
  // direction is that plus decay * weights. Of plain SGD, RMSprop and LAMB, ahead = weights + steps
  // * the last update. `updates`: so many have been applied, in this run and before; before the
  // first one, ahead = weights.
  void look_ahead(Minibatch p, int steps, std::int64_t updates, const float* weights, float* ahead);

  double learning_rate(Minibatch p) const;
  const std::vector<Buffer>& slots() const {
    return slots_;
  }  // in the order of OptimizerTraits::slots
  void load_slot(std::size_t slot, std::span<const float> values);
  // The state is what lies there, as many as slots(), and stays there.
  void use_slots(std::vector<Buffer> slots) { slots_ = std::move(slots); }

 private:
  struct Run {  // of the flat arrays: neighbours that are treated alike
    std::int64_t first = 0, count = 0;
    bool decays = true;
    double rate = 1;
    DampedMatrix matrix{};  // where its directions count
  };
  struct Matrix {  // that is damped
    std::int64_t first = 0;
    DampedMatrix form;
  };
  void add_run(const OptimizedParameter& parameter, std::int64_t first);
  void drop_frozen(Buffer& gradient);
  void apply(const Run& run, Minibatch p, std::int64_t step, float* gradient, const float* weights);
  void apply_orthogonal(const Run& run, double rate, float* g, const float* weights);
  float decay_of(const Run& run) const;
  AdamOptions adam(const Run& run, double rate) const;
  void look_along_state(const Run& run, double rate, int steps, std::int64_t updates,
                        const float* weights, float* ahead);

  OptimizerOptions options_;
  const OptimizerTraits& traits_;
  Device& device_;
  Stream& stream_;
  std::int64_t count_ = 0;
  std::vector<Run> trained_, frozen_;
  std::vector<Matrix> damped_;
  std::vector<Buffer> slots_;
  bool looks_ahead_ = false;
  Buffer last_update_;  // where the state does not say the direction
  Buffer trust_;        // of LAMB: squares of a parameter, and of its update; of muon: of a vector
  std::map<std::pair<std::int64_t, std::int64_t>, Orthogonalizer> orthogonal_;  // by its sides
  EntrySquares squares_;
};

}  // namespace hetpipe
