// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
// The weights themselves, or the moving average that the servers keep of them. (Without servers
// every stage keeps its own.)
enum class WeightsFor { training, evaluation_by_average };

// statistics: only the rank's part of their mean. exactly: so that a continuation is
// bit-identical.
enum class Saves { nothing, statistics, state, exactly };

// What this rank has sent so far for sums of gradients and means of running statistics.
struct SumTraffic {
  std::int64_t bytes = 0;
  std::int64_t messages = 0;
};

// How a rank synchronises with others that train the same weights: other virtual workers, and
// the replicas of its own stage. Implemented in runtime/sync, in one of two ways:
//
//   waves       (a parameter server)   replicas sum gradients in U;   P, L and E push and pull
//   all-reduce  (groups of ranks)      everybody sums gradients: P hands over, U waits
//
// In a run of all-reduce a label L is reached where the updates of all minibatches below
// L * in_flight have been applied; evaluations and checkpoints of L happen right there, with the
// weights as they are.
class Synchronizer {
 public:
  virtual ~Synchronizer() = default;

  // Before the first F of minibatch p at this rank, in both kinds of run: where a run that was
  // asked to stop finds where to stop. May wait.
  virtual void before_forward(Minibatch p) = 0;

  // Adds up the gradient of minibatch p, in place, over all that take part in this update: those of
  // a rank's stages (chunks) one after another. Does not wait; the gradient stays untouched until
  // finish_reduce. Ranks take part in every minibatch of their virtual worker, with zeros where
  // they have no samples.
  virtual void reduce(Minibatch p, Buffer& gradient) = 0;
  // Until the sums of all that was handed over are there. Returns seconds waited.
  virtual double finish_reduce(Minibatch p) = 0;

  virtual SumTraffic sum_traffic() const = 0;

  // All-reduce: the mean over virtual workers and replicas, weighed by samples, in place of the
  // rank's own running statistics (those of its stages one after another). Waits: at a label that
  // is evaluated or saved, all ranks do this, in the same order.
  virtual void average_statistics(std::vector<float>& values) = 0;

  // What a checkpoint at this label wants of this rank, after the push of the wave before it
  // (waves), or where the label is reached (all-reduce: with averaged statistics, so that ranks of
  // which nothing else is wanted take part in those) ...
  virtual Saves saves(Label label) const = 0;
  // ... and handing it over. Does not wait.
  virtual void save(const StageState& state) = 0;

  // Waves only.
  // P: hands over a wave's sum. Waits only for other replicas' running statistics.
  virtual void push(Wave wave, std::shared_ptr<const Buffer> sum,
                    const std::vector<float>& statistics) = 0;
  // First stage only: asks whether the last minibatch of `wave` may start; waits for the label.
  virtual Label pass_gate(Wave wave) = 0;
  // Requests a label early that will be needed: pull() of it then waits less.
  virtual void prefetch(Wave gate, Label label) = 0;
  // L and E: one consistent snapshot; waits for it. `gate`: the wave whose gate it belongs to.
  virtual StageSnapshot pull(Wave gate, Label label, WithStatistics statistics,
                             WeightsFor what) = 0;

  // Nothing more will be requested; waits until what was handed over has been sent.
  virtual void finish() = 0;
};

}  // namespace hetpipe
