// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/training_step.h"

#include <cmath>
#include <span>

#include "base/masked_tokens.h"
#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"

namespace hetpipe::bench {
namespace {

constexpr std::uint64_t kSeed = 1;

template <class T>
Buffer upload(Device& device, Stream& stream, const std::vector<T>& values, MemoryKind kind) {
  Buffer buffer(device, stream, values.size() * sizeof(T), kind);
  device.copy(stream, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
              buffer.bytes());
  stream.synchronize();
  return buffer;
}

Buffer initial(const ParameterLayout& layout, Device& device, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, kSeed, values);
  return upload(device, stream, values, MemoryKind::weights);
}

}  // namespace

TrainingStep::TrainingStep(const StepSetting& setting)
    : model_(make_model(setting.model, setting.sample, setting.classes)),
      batch_(setting.batch),
      device_(make_device(setting.device, setting.threads, setting.gpu)),
      stream_(device_->make_stream()),
      stage_(model_, {model_.layer_count()}, StageId{0}, kSeed, *device_, *stream_),
      optimizer_({.name = setting.optimizer, .learning_rate = 1e-3, .momentum = 0.9}, *device_,
                 *stream_, stage_.parameters().count()),
      weights_(initial(stage_.parameters(), *device_, *stream_)),
      statistics_(initial(stage_.statistics(), *device_, *stream_)) {
  const int vocabulary = model_.vocabulary();
  std::vector<float> images(static_cast<std::size_t>(model_.batch_shape(batch_).elements()));
  for (std::size_t e = 0; e < images.size(); ++e) {
    images[e] = random_uniform(kSeed, e);
    if (vocabulary > 0) images[e] = std::floor(images[e] * static_cast<float>(vocabulary));
  }
  std::vector<std::int32_t> labels;
  const std::int64_t tokens = model_.labels_per_sample();
  for (std::int64_t i = 0; i < batch_ * tokens; ++i) {
    const bool predicted = i % tokens < model_.predictions_per_sample();
    labels.push_back(predicted ? static_cast<std::int32_t>(i % model_.classes()) : kNoLabel);
  }
  for (int i = 0; i < batch_; ++i) keys_.push_back({0, i});
  images_ = upload(*device_, *stream_, images, MemoryKind::activations);
  labels_ = upload(*device_, *stream_, labels, MemoryKind::activations);
  stage_.prepare(batch_);
}

// Of the type that the first layer reads.
Buffer TrainingStep::samples() {
  const ElementType type = sample_type(model_, device_->element_type());
  if (type == ElementType::fp32) return std::move(images_);
  const std::size_t elements = images_.bytes() / sizeof(float);
  Buffer converted(*device_, *stream_, elements * bytes_of(type), MemoryKind::activations);
  device_->convert(*stream_, converted.data(), type, images_.data(), ElementType::fp32,
                   static_cast<std::int64_t>(elements));
  return converted;
}

void TrainingStep::run() {
  Pass pass;
  pass.samples = batch_;
  pass.loss_samples = batch_;
  pass.keys = keys_;
  pass.images = samples();
  pass.labels = std::move(labels_);
  stage_.forward(pass, weights_.as<float>(), statistics_.as<float>(), Mode::train);
  losses_ = std::move(pass.outputs.back());
  stage_.drop_what_backward_does_not_need(pass);
  Buffer gradient(*device_, *stream_, weights_.bytes(), MemoryKind::gradients);
  const ParameterLayout& layout = stage_.parameters();
  const Buffer uses(*device_, *stream_,
                    static_cast<std::size_t>(layout.use_count()) * sizeof(float),
                    MemoryKind::gradients);
  stage_.backward(pass, weights_.as<float>(), {gradient.as<float>(), uses.as<float>()});
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.is_own()) continue;
    device_->add(*stream_, gradient.as<float>() + layout.owner_offset(entry),
                 uses.as<float>() + entry.offset, entry.count);
  }
  if (!images_) images_ = std::move(pass.images);
  labels_ = std::move(pass.labels);
  optimizer_.update(minibatch_, minibatch_ + 1, gradient, weights_.as<float>());
  ++minibatch_;
  device_->add(*stream_, weights_.as<float>(), gradient.as<float>(), stage_.parameters().count());
}

void TrainingStep::finish() { stream_->synchronize(); }

double TrainingStep::loss() {
  float first = 0;
  device_->copy(*stream_, reinterpret_cast<std::byte*>(&first), losses_.data(), sizeof first);
  finish();
  return static_cast<double>(first);
}

}  // namespace hetpipe::bench
