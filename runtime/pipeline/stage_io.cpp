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

// Of `values`, which hold as many for every sample of the batch, those of the span.
template <class T>
Buffer upload(const Stage& stage, const std::vector<T>& values, std::int64_t samples,
              SampleSpan span, WorkQueue& ahead) {
  const std::size_t each = samples == 0 ? 0 : values.size() / static_cast<std::size_t>(samples);
  const auto part = std::span(values).subspan(static_cast<std::size_t>(span.first) * each,
                                              static_cast<std::size_t>(span.count()) * each);
  Buffer buffer(stage.device(), stage.stream(), part.size_bytes(), MemoryKind::activations);
  if (part.empty()) return buffer;
  const std::byte* from = reinterpret_cast<const std::byte*>(part.data());
  if (!stage.device().host_memory()) {
    std::byte* const lent = ahead.lend(part.size_bytes());
    std::memcpy(lent, from, part.size_bytes());
    from = lent;
  }
  stage.device().copy(stage.stream(), buffer.data(), from, buffer.bytes());
  return buffer;
}

// Part by part, as the loss reads them.
Buffer upload_labels(const Stage& stage, const Batch& batch, SampleSpan span, WorkQueue& ahead) {
  const std::vector<std::int64_t> sizes = stage.model().label_sizes();
  if (sizes.size() == 1) return upload(stage, batch.labels, batch.count, span, ahead);
  const std::int64_t each = stage.model().labels_per_sample();
  std::vector<std::int32_t> labels;
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    for (std::int64_t n = span.first; n < span.end; ++n) {
      const auto row = batch.labels.begin() + n * each + first;
      labels.insert(labels.end(), row, row + size);
    }
    first += size;
  }
  return upload(stage, labels, span.count(), {0, span.count()}, ahead);
}

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

void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass, WorkQueue& ahead) {
  pass.samples = span.count();
  pass.keys.assign(batch.keys.begin() + span.first, batch.keys.begin() + span.end);
  if (stage.reads_samples()) {
    pass.images = upload(stage, batch.images, batch.count, span, ahead);
    const ElementType type = sample_type(stage.model(), stage.device().element_type());
    if (type != ElementType::fp32) {
      const std::size_t elements = pass.images.bytes() / sizeof(float);
      Buffer converted(stage.device(), stage.stream(), elements * bytes_of(type),
                       MemoryKind::activations);
      stage.device().convert(stage.stream(), converted.data(), type, pass.images.data(),
                             ElementType::fp32, static_cast<std::int64_t>(elements));
      pass.images = std::move(converted);
    }
  }
  if (!stage.has_loss()) return;
  pass.labels = upload_labels(stage, batch, span, ahead);
  pass.loss_weight = batch.loss_weight;
  pass.predictions = predictions(stage.model(), batch, span);
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
