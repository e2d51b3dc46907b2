// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_io.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/masked_tokens.h"
#include "runtime/model/model.h"

namespace hetpipe {
namespace {

// Labels of the span that are classes.
std::int64_t predictions(const Model& model, const Batch& batch, SampleSpan span) {
  const auto [first, count] = model.class_labels();
  if (count == 0) return 0;
  const std::int64_t each = model.labels_per_sample();
  std::int64_t found = 0;
  for (std::int64_t n = span.first; n < span.end; ++n) {
    const auto row = batch.labels.begin() + n * each + first;
    found += count - std::count(row, row + count, kNoLabel);
  }
  return found;
}

}  // namespace

void describe(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass) {
  pass.samples = span.count();
  pass.keys.assign(batch.keys.begin() + span.first, batch.keys.begin() + span.end);
  if (!stage.has_loss()) return;
  pass.loss_weight = batch.loss_weight;
  pass.predictions = predictions(stage.model(), batch, span);
}

StoredPart images_of(const Batch& batch, SampleSpan span) {
  if (batch.images.empty()) return {};
  const std::size_t each = batch.images.bytes() / static_cast<std::size_t>(batch.count);
  return {batch.images.data() + static_cast<std::size_t>(span.first) * each,
          static_cast<std::size_t>(span.count()) * each};
}

std::size_t bytes_of_labels(const Batch& batch, SampleSpan span) {
  if (batch.labels.empty()) return 0;
  const std::size_t each =
      batch.labels.size() / static_cast<std::size_t>(batch.count) + (batch.mixed.empty() ? 0 : 2);
  return static_cast<std::size_t>(span.count()) * each * sizeof(std::int32_t);
}

void write_labels(const Model& model, const Batch& batch, SampleSpan span, std::byte* to) {
  if (bytes_of_labels(batch, span) == 0) return;
  const auto each = static_cast<std::int64_t>(batch.labels.size()) / batch.count;
  std::vector<std::int64_t> sizes = model.label_sizes();
  if (sizes.size() == 1) sizes.front() = each;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    const auto bytes = static_cast<std::size_t>(size) * sizeof(std::int32_t);
    for (std::int64_t n = span.first; n < span.end; ++n, to += bytes) {
      std::memcpy(to, batch.labels.data() + n * each + first, bytes);
    }
    first += size;
  }
  if (batch.mixed.empty()) return;
  const auto mixed =
      std::span(batch.mixed)
          .subspan(static_cast<std::size_t>(span.first), static_cast<std::size_t>(span.count()));
  for (std::size_t n = 0; n < mixed.size(); ++n, to += sizeof(std::int32_t)) {
    std::memcpy(to, &mixed[n].other, sizeof(std::int32_t));
    std::memcpy(to + mixed.size() * sizeof(std::int32_t), &mixed[n].share, sizeof(float));
  }
}

Buffer unpacked(const Stage& stage, const std::byte* from, std::size_t bytes, SampleType type,
                const PixelScale& scale) {
  const ElementType to = sample_type(stage.model(), stage.device().element_type());
  const std::size_t elements = bytes / bytes_of(type);
  Buffer images(stage.device(), stage.stream(), elements * bytes_of(to), MemoryKind::activations);
  stage.device().unpack(stage.stream(), images.data(), to, from, type,
                        static_cast<std::int64_t>(elements), scale);
  return images;
}

void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass, WorkQueue& ahead) {
  describe(stage, batch, span, pass);
  Device& device = stage.device();
  Stream& stream = stage.stream();
  if (stage.reads_samples()) {
    const auto [from, bytes] = images_of(batch, span);
    if (device.host_memory()) {
      pass.images = unpacked(stage, from, bytes, batch.images.type(), batch.images.scale());
    } else {
      const Buffer stored(device, stream, bytes, MemoryKind::activations);
      device.copy(stream, stored.data(), from, bytes);
      pass.images =
          unpacked(stage, stored.data(), bytes, batch.images.type(), batch.images.scale());
    }
  }
  if (!stage.has_loss()) return;
  const std::size_t bytes = bytes_of_labels(batch, span);
  pass.labels = Buffer(device, stream, bytes, MemoryKind::activations);
  std::byte* const to = device.host_memory() ? pass.labels.data() : ahead.lend(bytes);
  write_labels(stage.model(), batch, span, to);
  if (to != pass.labels.data()) device.copy(stream, pass.labels.data(), to, bytes);
}

std::function<Losses()> read_losses(const Stage& stage, const Pass& pass, WorkQueue& ahead) {
  const auto count = static_cast<std::size_t>(pass.samples);
  if (count == 0) return [] { return Losses(); };
  const auto down = [&](const Buffer& buffer, std::size_t bytes) {
    std::byte* const to = ahead.lend(bytes);
    stage.device().copy(stage.stream(), to, buffer.data(), bytes);
    return to;
  };
  const std::byte* const losses = down(pass.outputs.back(), count * sizeof(float));
  const std::byte* const hits = down(pass.correct, count * sizeof(std::int32_t));
  return [count, losses, hits] {
    Losses read;
    for (const float loss : std::span(reinterpret_cast<const float*>(losses), count)) {
      read.sum += static_cast<double>(loss);
    }
    for (const auto hit : std::span(reinterpret_cast<const std::int32_t*>(hits), count)) {
      read.correct += hit;
    }
    return read;
  };
}

}  // namespace hetpipe
