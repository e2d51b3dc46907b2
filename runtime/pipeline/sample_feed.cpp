// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/sample_feed.h"

#include <utility>

#include "base/index.h"
#include "base/time.h"
#include "runtime/pipeline/stage_io.h"

namespace hetpipe {
namespace {

bool loads(const Stage& stage) { return stage.reads_samples() || stage.has_loss(); }

std::vector<bool> chunks_that_load(const std::vector<Stage*>& chunks) {
  std::vector<bool> load;
  for (const Stage* chunk : chunks) load.push_back(loads(*chunk));
  return load;
}

}  // namespace

SampleFeed::SampleFeed(const WorkerPlace& place, std::vector<Stage*> chunks,
                       const SampleSource& source, Pace& pace, WorkQueue& ahead)
    : place_(place),
      chunks_(std::move(chunks)),
      source_(source),
      pace_(pace),
      ahead_(ahead),
      to_bring_(place, chunks_that_load(chunks_)) {
  Device& device = chunks_.front()->device();
  if (!device.host_memory()) above_.emplace(device, chunks_.front()->stream());
}

void SampleFeed::begin(Minibatch p) {
  const std::int64_t asked = now_ns();
  if (next_ && next_->minibatch == p) {
    batches_.emplace(p, *std::exchange(next_, std::nullopt));
  } else {
    batches_.emplace(p, source_.batch(p));
  }
  const std::int64_t start = now_ns();
  ahead_.waited(asked, start, &RankReport::data_seconds);
  pace_.answered(seconds_between(asked, start), start);
}

SampleSpan SampleFeed::samples_of(const StagePass& of) const {
  const std::int64_t samples = place_.samples(of.minibatch);
  const auto share = [&](int m) {
    return place_.split.of(samples, m, place_.stage(0).value, place_.replica).count();
  };
  std::int64_t first = 0;
  for (int m = 0; m < of.micro; ++m) first += share(m);
  return {first, first + share(of.micro)};
}

void SampleFeed::load(const StagePass& of, Pass& pass) {
  const Stage& stage = *chunks_[at(of.chunk)];
  const Batch& batch = batches_.at(of.minibatch);
  if (!above_) {
    hetpipe::load(stage, batch, samples_of(of), pass, ahead_);
  } else {
    describe(stage, batch, samples_of(of), pass);
    if (loads(stage)) {
      bring_ahead();
      above_->take(of, stage, pass);
    }
  }
  pass.loss_samples = source_.loss_samples(of.minibatch);
}

const Batch* SampleFeed::find(Minibatch p) {
  const auto begun = batches_.find(p);
  if (begun != batches_.end()) return &begun->second;
  if (!next_) next_ = source_.batch_ahead(p);
  return next_ && next_->minibatch == p ? &*next_ : nullptr;
}

void SampleFeed::bring_ahead() {
  if (!above_ || !above_->empty()) return;
  if (!next_to_bring_) next_to_bring_ = to_bring_.next();
  if (!next_to_bring_) return;
  const StagePass& next = *next_to_bring_;
  const Batch* const batch = find(next.minibatch);
  if (batch == nullptr) return;
  above_->upload(next, *chunks_[at(next.chunk)], *batch, samples_of(next));
  next_to_bring_.reset();
}

}  // namespace hetpipe
