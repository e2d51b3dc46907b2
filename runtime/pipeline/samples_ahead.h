// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "kernels/buffer.h"
#include "runtime/data/prefetch.h"
#include "runtime/data/sample_split.h"
#include "runtime/pipeline/batch_memory.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/worker_place.h"

namespace hetpipe {

// Brings samples and labels to a device whose memory the host does not reach, as they are stored
// and on a stream of their own: those of the next pass while the present one is computed. There is
// one place for them in device memory (MemoryKind::activations); it is free again once they have
// been unpacked, which is the first thing that their pass does.
//
//   upload stream   up 0 . up 1 ....... up 2 ........
//   stage's stream       unpack 0 F0 B0 unpack 1 F1 B1
class SamplesAhead {
 public:
  // `stream`: of the stages.
  SamplesAhead(Device& device, Stream& stream);
  ~SamplesAhead();
  SamplesAhead(const SamplesAhead&) = delete;
  SamplesAhead& operator=(const SamplesAhead&) = delete;

  // Makes host memory for the labels of so many passes beforehand.
  void reserve_labels(std::size_t bytes, int passes) { memory_.reserve(bytes, passes); }
  // Whether nothing waits to be taken.
  bool empty() const { return !uploaded_; }
  // Enqueues the copies of what `stage` reads of samples `span` of a batch (counted inside it) for
  // a pass. Only when empty(). The batch's images are page-locked memory and are kept until the
  // copy is done.
  void upload(const StagePass& of, const Stage& stage, const Batch& batch, SampleSpan span);
  // What upload() brought for this pass, enqueued on the stages' stream.
  void take(const StagePass& of, const Stage& stage, Pass& pass);

 private:
  struct Reading {  // by a copy
    std::shared_ptr<std::byte[]> memory;
    std::shared_ptr<const Event> done;
  };
  struct Part {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Uploaded {
    StagePass of;
    SampleType type = SampleType::floats;
    PixelScale scale;
    Part images, labels;
    std::shared_ptr<const Event> done;
  };
  void make_room(std::size_t bytes);

  Device& device_;
  Stream& stream_;
  BatchMemory memory_;           // for labels
  std::deque<Reading> reading_;  // in the order of the upload stream
  const std::unique_ptr<Stream> upload_stream_;
  Buffer place_;
  std::optional<Uploaded> uploaded_;
  std::unique_ptr<Event> taken_;  // the last ones, unpacked
};

}  // namespace hetpipe
