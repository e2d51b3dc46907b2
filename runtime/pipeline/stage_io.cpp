// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_io.h"

#include <algorithm>
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
              SampleSpan span) {
  const std::size_t each = samples == 0 ? 0 : values.size() / static_cast<std::size_t>(samples);
  const auto part = std::span(values).subspan(static_cast<std::size_t>(span.first) * each,
                                              static_cast<std::size_t>(span.count()) * each);
  Buffer buffer(stage.device(), stage.stream(), part.size_bytes(), MemoryKind::activations);
  stage.device().copy(stage.stream(), buffer.data(),
                      reinterpret_cast<const std::byte*>(part.data()), buffer.bytes());
  return buffer;
}

// Part by part, as the loss reads them.
Buffer upload_labels(const Stage& stage, const Batch& batch, SampleSpan span) {
  const std::vector<std::int64_t> sizes = stage.model().label_sizes();
  if (sizes.size() == 1) return upload(stage, batch.labels, batch.count, span);
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
  return upload(stage, labels, span.count(), {0, span.count()});
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

void load(const Stage& stage, const Batch& batch, SampleSpan span, Pass& pass) {
  pass.samples = span.count();
  pass.keys.assign(batch.keys.begin() + span.first, batch.keys.begin() + span.end);
  if (stage.reads_samples()) {
    pass.images = upload(stage, batch.images, batch.count, span);
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
  pass.labels = upload_labels(stage, batch, span);
  pass.loss_weight = batch.loss_weight;
  pass.predictions = predictions(stage.model(), batch, span);
}

Losses read_losses(const Stage& stage, const Pass& pass, RankService& service) {
  Losses read;
  if (pass.samples == 0) return read;
  std::vector<float> losses(static_cast<std::size_t>(pass.samples));
  std::vector<std::int32_t> hits(losses.size());
  Device& device = stage.device();
  device.copy(stage.stream(), reinterpret_cast<std::byte*>(losses.data()),
              pass.outputs.back().data(), losses.size() * sizeof(float));
  device.copy(stage.stream(), reinterpret_cast<std::byte*>(hits.data()), pass.correct.data(),
              hits.size() * sizeof(std::int32_t));
  service.settle(stage.stream(), [&] { return "loss on " + device.description(); });
  for (const float loss : losses) read.sum += static_cast<double>(loss);
  for (const std::int32_t hit : hits) read.correct += hit;
  return read;
}

}  // namespace hetpipe
