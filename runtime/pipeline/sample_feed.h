// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "runtime/data/prefetch.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/samples_ahead.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/work_queue.h"
#include "runtime/pipeline/worker_place.h"

namespace hetpipe {

// A rank's samples, of a minibatch micro-batch after micro-batch.
struct SampleSource {
  std::function<Batch(Minibatch)> batch;                       // waits until they are assembled
  std::function<std::optional<Batch>(Minibatch)> batch_ahead;  // if they are there already
  std::function<std::int64_t(Minibatch)> loss_samples;         // that one update is a mean over
};

// Gives the passes of a rank's stages their samples and labels, in the order of its forwards.
class SampleFeed {
 public:
  // `chunks`: the rank's stages. All outlive this.
  SampleFeed(const WorkerPlace& place, std::vector<Stage*> chunks, const SampleSource& source,
             Pace& pace, WorkQueue& ahead);

  // SamplesAhead's.
  void reserve_labels(std::size_t bytes, int passes) {
    if (above_) above_->reserve_labels(bytes, passes);
  }

  // Before the first pass of minibatch p here: waits for its samples.
  void begin(Minibatch p);
  bool has_begun(Minibatch p) const { return batches_.contains(p); }
  // Enqueues a pass's samples, within its piece of work: a device that the host reaches gets them
  // then, else they came one pass before.
  void load(const StagePass& of, Pass& pass);
  // Sends the next pass's samples to the device, unless they wait there or are not assembled.
  void bring_ahead();
  void end(Minibatch p) { batches_.erase(p); }  // no pass of it follows

 private:
  SampleSpan samples_of(const StagePass& of) const;  // counted in the minibatch's batch
  const Batch* find(Minibatch p);

  const WorkerPlace& place_;
  std::vector<Stage*> chunks_;
  const SampleSource& source_;
  Pace& pace_;
  WorkQueue& ahead_;
  std::map<Minibatch, Batch> batches_;  // begun
  std::optional<Batch> next_;           // not begun
  std::optional<SamplesAhead> above_;   // where the host does not reach the device's memory
  ForwardCursor to_bring_;
  std::optional<StagePass> next_to_bring_;
};

}  // namespace hetpipe
