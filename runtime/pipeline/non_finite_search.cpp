// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/non_finite_search.h"

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/non_finite.h"

namespace hetpipe {
namespace {

// For an earlier stage to find its layer; it computes a forward for it.
constexpr std::int64_t kEarlierStageSpeaksNs = 10'000'000'000;

}  // namespace

void NonFiniteSearch::fail(Minibatch p, const Stage& stage, const Pass& pass,
                           const StageWeights& weights) {
  const auto found = first_non_finite(stage, pass, weights);
  if (found && found->sender) {
    for (const Rank sender : place_.ranks[at(*found->sender)]) {
      service_.send(sender, FindNonFinite{.minibatch = p});
    }
    service_.wait_until_ns(now_ns() + kEarlierStageSpeaksNs);
  }
  throw NumericalError(format(
      "step %lld of virtual worker %d: the loss is not a finite number. The first non-finite "
      "number, in the order of computation, is at stage %d: %s. Lower --learning-rate, or start "
      "from an earlier checkpoint.",
      static_cast<long long>(rules_.minibatches_done(p)), place_.virtual_worker.value,
      stage.id().value, found ? found->what.c_str() : "the loss"));
}

// With the weights that its backward would have: the same bits where a version is kept.
ComputeWeights::Of NonFiniteSearch::compute_again(Minibatch p, int chunk, int micro, Pass& pass) {
  Stage& stage = *chunks_[at(chunk)];
  ComputeWeights::Of with = weights_.backward(p, chunk, micro);
  stage.drop_what_forward_makes(pass);
  stage.forward(pass, with.weights, statistics_.of_chunk(chunk), Mode::train, Statistics::leave);
  return with;
}

void NonFiniteSearch::fail_again(Minibatch p, int chunk, int micro, Pass& pass) {
  const ComputeWeights::Of with = compute_again(p, chunk, micro, pass);
  fail(p, *chunks_[at(chunk)], pass, with.weights);
}

// The loss that a gradient came back from was finite.
void NonFiniteSearch::look_again(Minibatch p, std::vector<std::vector<HeldPass>> passes) {
  for (std::size_t c = 0; c < passes.size(); ++c) {
    for (std::size_t m = 0; m < passes[c].size(); ++m) {
      HeldPass& pass = passes[c][m];
      if (!pass.forwarded || pass.backwarded || pass.samples == 0) continue;
      const ComputeWeights::Of with =
          compute_again(p, static_cast<int>(c), static_cast<int>(m), pass);
      if (first_non_finite(*chunks_[c], pass, with.weights)) {
        fail(p, *chunks_[c], pass, with.weights);
      }
    }
  }
}

}  // namespace hetpipe
