// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "base/ids.h"
#include "runtime/transport/messages.h"

// What the ranks of one virtual worker send each other.
namespace hetpipe {

enum class PipelineKind : std::int32_t {
  activations = first_after<TransportKind>,
  gradients,
  test_activations,
  loss_scale_overflow,
  gradient_squares,
  find_non_finite,
  life_sign,
  tied_weights,
  tied_gradients,
  end
};

// Which tensors a message brings: those of a minibatch, from its micro-batch `micro` on, for a
// stage.
struct TensorsOf {
  Minibatch minibatch = 0;
  std::int32_t micro = 0;
  StageId stage;
  bool operator==(const TensorsOf&) const = default;
};

// Before the tensors of one Transfer, on Channel::forward and Channel::backward.
struct ActivationsSent {
  static constexpr auto kKind = PipelineKind::activations;
  TensorsOf of;
  Label label = 0;  // of the weights that made them
};
struct GradientsSent {
  static constexpr auto kKind = PipelineKind::gradients;
  TensorsOf of;
  std::int32_t scale_exponent = 0;  // of the loss (LossScale)
};
// On Channel::evaluate.
struct TestActivationsSent {
  static constexpr auto kKind = PipelineKind::test_activations;
  std::int64_t batch = 0;  // of the test set
  StageId stage;
  bool operator==(const TestActivationsSent&) const = default;
};

// Before the values of one parameter for a stage that uses it, on Channel::tied_weights (number:
// the minibatch's) and Channel::evaluate (the label's).
struct TiedWeightsSent {
  static constexpr auto kKind = PipelineKind::tied_weights;
  std::int64_t number = 0;
  StageId stage;
  std::int32_t parameter = 0;  // among those that the stage uses
  bool operator==(const TiedWeightsSent&) const = default;
};
// Before a sum of parts of one parameter's gradient, on Channel::tied_gradients.
struct TiedGradientsSent {
  static constexpr auto kKind = PipelineKind::tied_gradients;
  Minibatch minibatch = 0;
  StageId stage;
  std::int32_t parameter = 0;  // among the model's tied ones
  bool operator==(const TiedGradientsSent&) const = default;
};

// To the ranks with the loss: the gradient of a minibatch is not finite, whose loss was scaled like
// that.
struct LossScaleOverflow {
  static constexpr auto kKind = PipelineKind::loss_scale_overflow;
  Minibatch minibatch = 0;
  std::int32_t scale_exponent = 0;
};

// To the other ranks of the virtual worker: of the gradient of a minibatch, every parameter's sum
// of squares at one position.
struct GradientSquares {
  static constexpr auto kKind = PipelineKind::gradient_squares;
  Minibatch minibatch = 0;
  std::int32_t position = 0;
  std::vector<double> squares{};
  static auto fields(auto& m) { return std::tie(m.minibatch, m.position, m.squares); }
};

// To an earlier stage: what it sent of this minibatch holds NaN or infinity.
struct FindNonFinite {
  static constexpr auto kKind = PipelineKind::find_non_finite;
  Minibatch minibatch = 0;
};

// From any rank to all: a rank has made progress.
struct LifeSign {
  static constexpr auto kKind = PipelineKind::life_sign;
};

static_assert(
    kinds_differ<ActivationsSent, GradientsSent, TestActivationsSent, LossScaleOverflow,
                 GradientSquares, FindNonFinite, LifeSign, TiedWeightsSent, TiedGradientsSent>());

}  // namespace hetpipe
