// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/evaluator.h"

#include <cmath>

#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/non_finite.h"
#include "runtime/pipeline/stage_io.h"

namespace hetpipe {

Evaluator::Evaluator(const TestBatches& batches, std::vector<Stage*> chunks,
                     StageMessages& messages, RankService& service, Pace& pace)
    : batches_(batches),
      chunks_(std::move(chunks)),
      messages_(messages),
      service_(service),
      pace_(pace),
      ahead_(chunks_.front()->device(), chunks_.front()->stream(), service, unused_, 1) {}

EvaluationReport Evaluator::evaluate(Label label, const float* weights,
                                     const std::vector<Buffer>& foreign, float* statistics) {
  EvaluationReport sum{.label = label};
  for (const std::int64_t number : batches_.numbers) {
    service_.begin(format("evaluating test batch %lld", static_cast<long long>(number)));
    pass_through(number, weights, foreign, statistics, sum);
  }
  return sum;
}

void Evaluator::pass_through(std::int64_t number, const float* own,
                             const std::vector<Buffer>& foreign, float* statistics,
                             EvaluationReport& sum) {
  const std::int64_t samples = batches_.samples(number);
  const Batch batch = batches_.batch(number);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    Stage& stage = *chunks_[c];
    const int chunk = static_cast<int>(c);
    Pass pass;
    pass.activations_in = messages_.take_test_batch(chunk, number, samples);
    const std::int64_t start = now_ns();
    ahead_.begin();
    load(stage, batch, {0, batch.count}, pass, ahead_);
    const StageWeights weights(own, foreign[c].as<float>());
    stage.forward(pass, weights, statistics, Mode::evaluate);
    const auto read = stage.has_loss() ? read_losses(stage, pass, ahead_) : nullptr;
    Losses losses;
    ahead_.end(WorkQueue::Work::pass, "evaluation on " + stage.device().description(),
               [&](const WorkQueue::Span&) {
                 if (read) losses = read();
               });
    pace_.hold(start, batches_.modelled(chunk, pass.samples));
    messages_.send_test_batch(chunk, pass, number, samples);
    service_.poll();
    messages_.release_sent();
    if (stage.has_loss()) {
      if (!std::isfinite(losses.sum)) {
        const auto found = first_non_finite(stage, pass, weights);
        throw NumericalError(
            format("evaluation after wave %lld: the test loss is not a finite number (%s). Lower "
                   "--learning-rate, or start from an earlier checkpoint.",
                   static_cast<long long>(sum.label), found ? found->what.c_str() : "the loss"));
      }
      sum.loss_sum += losses.sum;
      sum.correct += losses.correct;
      sum.samples += pass.samples;
      sum.labels += pass.predictions;
    }
    own += stage.parameters().count();
    statistics += stage.statistics().count();
  }
}

}  // namespace hetpipe
