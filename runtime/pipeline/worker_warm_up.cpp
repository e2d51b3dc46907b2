// SPDX-License-Identifier: Apache-2.0
// What a worker does beforehand, where kernels of other ranks will wait on its device.
#include "base/index.h"
#include "runtime/pipeline/worker.h"

namespace hetpipe {

void Worker::warm_up(const StepSizes& sizes) {
  device_.load_code();
  {
    const std::shared_ptr<const WeightVersion> weights = weights_.newest();
    enqueue_trial_step(chunks_, sizes, weights->values.as<float>(), optimizer_,
                       setup_.split_backward);
    settle("a trial step");
  }
  // Losses and hits of the passes that are under way and of the next, running statistics, labels.
  const int passes = setup_.run_ahead + 2;
  if (!statistics_.none()) ahead_.reserve(statistics_.bytes(), passes);
  if (!chunks_.back()->has_loss()) return;
  const auto most = [](const std::set<std::int64_t>& of) { return of.empty() ? 0 : *of.rbegin(); };
  const std::int64_t train = most(sizes.train.back()), evaluate = most(sizes.evaluate.back());
  const Model& model = chunks_.back()->model();
  if (train > 0) {
    ahead_.reserve(at(train) * sizeof(float), 2 * passes);
    feed_.reserve_labels(most_bytes_of_labels(model, train), passes);
  }
  if (evaluate > 0) evaluator_.reserve(most_bytes_of_labels(model, evaluate));
}

}  // namespace hetpipe
