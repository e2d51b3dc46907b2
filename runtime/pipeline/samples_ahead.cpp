// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/samples_ahead.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "runtime/pipeline/stage_io.h"

namespace hetpipe {
namespace {

constexpr std::size_t kAlignment = 256;  // of a part

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

SamplesAhead::SamplesAhead(Device& device, Stream& stream)
    : device_(device), stream_(stream), memory_(device), upload_stream_(device.make_stream()) {}

SamplesAhead::~SamplesAhead() {
  // The place is given back in the order of the upload stream, and read on the other one.
  try {
    if (taken_) upload_stream_->wait(*taken_);
  } catch (const SystemError&) {
    // The device has failed, and reads nothing any more; somebody else says so.
  }
}

void SamplesAhead::make_room(std::size_t bytes) {
  if (place_.bytes() >= bytes) return;
  place_ = Buffer();
  place_ = Buffer(device_, *upload_stream_, bytes, MemoryKind::activations);
}

void SamplesAhead::upload(const StagePass& of, const Stage& stage, const Batch& batch,
                          SampleSpan span) {
  ensure(empty(), "the samples of one pass are ahead");
  while (!reading_.empty() && reading_.front().done->done()) reading_.pop_front();
  Uploaded next;
  next.of = of;
  const std::byte* images = nullptr;
  if (stage.reads_samples()) {
    const StoredPart part = images_of(batch, span);
    next.type = batch.images.type();
    next.scale = batch.images.scale();
    next.images.bytes = part.bytes;
    images = part.from;
  }
  std::shared_ptr<std::byte[]> labels;
  if (stage.has_loss()) {
    next.labels = {aligned(next.images.bytes), bytes_of_labels(batch, span)};
    if (next.labels.bytes > 0) {
      labels = memory_(next.labels.bytes);
      write_labels(stage.model(), batch, span, labels.get());
    }
  }
  if (taken_) upload_stream_->wait(*taken_);
  make_room(std::max(next.images.bytes, next.labels.offset + next.labels.bytes));
  device_.copy(*upload_stream_, place_.data(), images, next.images.bytes);
  if (labels) {
    device_.copy(*upload_stream_, place_.data() + next.labels.offset, labels.get(),
                 next.labels.bytes);
  }
  next.done = upload_stream_->record();
  if (images != nullptr) reading_.push_back({batch.images.memory(), next.done});
  if (labels) reading_.push_back({std::move(labels), next.done});
  uploaded_ = std::move(next);
}

void SamplesAhead::take(const StagePass& of, const Stage& stage, Pass& pass) {
  ensure(uploaded_ && uploaded_->of == of, "samples come up in the order of their passes");
  const Uploaded& it = *uploaded_;
  stream_.wait(*it.done);
  if (stage.reads_samples()) {
    pass.images =
        unpacked(stage, place_.data() + it.images.offset, it.images.bytes, it.type, it.scale);
  }
  if (stage.has_loss()) {
    pass.labels = Buffer(device_, stream_, it.labels.bytes, MemoryKind::activations);
    device_.copy(stream_, pass.labels.data(), place_.data() + it.labels.offset, it.labels.bytes);
  }
  taken_ = stream_.record();
  uploaded_.reset();
}

}  // namespace hetpipe
