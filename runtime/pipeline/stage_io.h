// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/data/prefetch.h"
#include "runtime/data/sample_split.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/work_queue.h"

// What goes into a stage from the data set, and what comes out of its loss.
namespace hetpipe {

// What a pass knows of its samples `span` of a batch (counted inside it) without their numbers.
void describe(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass);
// Describes the pass and enqueues the copies of its samples and labels, as far as the stage reads
// them, on the stage's stream, within a piece of work. The batch is read until that is done. Passes
// ahead of which something can be brought: SamplesAhead (samples_ahead.h).
void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass, WorkQueue& ahead);

// Samples of a batch in its memory.
struct StoredPart {
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};
StoredPart images_of(const Batch& batch, SampleSpan span);
// The labels of these samples, part by part, as the loss reads them: their bytes, and they. Behind
// mixed ones those that they are mixed with and their shares (SoftmaxCrossEntropy).
std::size_t bytes_of_labels(const Batch& batch, SampleSpan span);
void write_labels(const Model& model, const Batch& batch, SampleSpan span, std::byte* to);
// Samples as the stage's layers read them; enqueued on its stream, which reads `from` (memory of
// the device, or of the host where it reaches that).
Buffer unpacked(const Stage& stage, const std::byte* from, std::size_t bytes, SampleType type,
                const PixelScale& scale);

// Of a forward pass through the stage that holds the loss.
struct Losses {
  double sum = 0;  // over samples, in their order
  std::int64_t correct = 0;
};
// Enqueues their copies to the host; called when these are done, the result reads them.
std::function<Losses()> read_losses(const Stage& stage, const Pass& pass, WorkQueue& ahead);

}  // namespace hetpipe
