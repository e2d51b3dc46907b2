// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "partitioner/plan/system.h"
#include "runtime/pipeline/local_weights.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {

// Which weights the passes of a stage compute with: a row of the table of systems, in parts.
struct WeightPolicy {
  Visible visible = Visible::exactly;
  WeightsOf forward = WeightsOf::newest;
  WeightsOf backward = WeightsOf::forward;
  bool by_wave = false;  // one update for each wave, of all its gradients
  // Weight decay is taken at the weights that the gradient was, or (where those depend on a virtual
  // worker's depth and all share one update) at the newest.
  bool decay_as_forward = true;
  int steps_forward = 0;  // that a prediction looks ahead
  int steps_backward = 0;
};

// `steps_*` are the stage's, counted from its schedule (partitioner/plan/staleness.h).
WeightPolicy policy_of(const Plan& plan, int steps_forward, int steps_backward);

// Applies a policy at one stage: gives every pass its weights, and releases them when the
// last pass that shares them is done.
class PassWeights {
 public:
  using Version = std::shared_ptr<const WeightVersion>;

  PassWeights(const WeightPolicy& policy, LocalWeights& weights, Optimizer& optimizer,
              Device& device, Stream& stream, int passes);  // of a minibatch: micro-batches, chunks

  Version forward(Minibatch p, int pass);
  // For R and B of a pass, and for its W; the same until done_with().
  Version backward(Minibatch p, int pass);
  void forward_done(Minibatch p, int pass);
  void backward_done(Minibatch p, int pass);
  // Those that weight decay is taken at.
  Version at_update(Minibatch p);
  void minibatch_done(Minibatch p);
  std::int64_t predictions() const { return predictions_; }  // made so far

 private:
  struct Of {
    std::vector<Version> kept;  // by pass
    Version forward;            // shared
    Version backward;
    Version last;
    int forwards_left = 0;
    int backwards_left = 0;
  };
  Of& of(Minibatch p);
  Version predict(Minibatch p, const Version& from, int steps);

  const WeightPolicy policy_;
  LocalWeights& weights_;
  Optimizer& optimizer_;
  Device& device_;
  Stream& stream_;
  int passes_;
  std::int64_t predictions_ = 0;
  std::map<Minibatch, Of> of_;
};

}  // namespace hetpipe
