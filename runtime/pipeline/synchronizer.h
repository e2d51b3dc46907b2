// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "base/ids.h"
#include "kernels/buffer.h"
#include "runtime/pipeline/stage_state.h"

namespace hetpipe {

// Weights and running statistics of one stage, of one label.
struct StageSnapshot {
  Label label = 0;
  Buffer weights;
  Buffer statistics;  // only where asked for
};

enum class WithStatistics { no, yes };

// exactly: so that a continuation is bit-identical.
enum class Saves { nothing, state, exactly };

// How a stage meets the other virtual workers. The executor's actions P, L and E go through it;
// what stands behind (a parameter server here) is runtime/sync's.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Before the first F of minibatch p at the first stage: a stop may have to be agreed on.
  virtual void before_forward(Minibatch p) = 0;
  // Adds up a gradient, in place, with those of the ranks that make the same update (P; under waves
  // replicas alone). Does not wait.
  virtual void reduce(Minibatch p, Buffer& gradient) = 0;
  // U: until that is done. Seconds waited.
  virtual double finish_reduce(Minibatch p) = 0;
  // The mean of running statistics over the same ranks, weighted by samples. Waits.
  virtual void average_statistics(std::vector<float>& values) = 0;

  // P: hands over a wave's sum. Does not wait.
  virtual void push(Wave wave, std::shared_ptr<const Buffer> sum,
                    const std::vector<float>& statistics) = 0;
  // What a checkpoint at this label wants of the stage, after the push of the wave before it ...
  virtual Saves saves(Label label) const = 0;
  // ... and handing it over. Does not wait.
  virtual void save(const StageState& state) = 0;
  // First stage only: asks whether the last minibatch of `wave` may start; waits for the label.
  virtual Label pass_gate(Wave wave) = 0;
  // Asks early for a label that will be needed: pull() of it then waits less.
  virtual void prefetch(Wave gate, Label label) = 0;
  // L and E: one consistent snapshot; waits for it. `gate`: the wave whose gate it belongs to.
  virtual StageSnapshot pull(Wave gate, Label label, WithStatistics statistics) = 0;
  // Nothing more will be asked; waits until what was handed over has left.
  virtual void finish() = 0;
};

}  // namespace hetpipe
