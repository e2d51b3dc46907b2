// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/training_step.h"

#include <span>

#include "base/random.h"
#include "kernels/devices.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"

namespace hetpipe::bench {
namespace {

constexpr int kClasses = 10;
constexpr std::uint64_t kSeed = 1;

template <class T>
Buffer upload(Device& device, Stream& stream, const std::vector<T>& values, MemoryKind kind) {
  Buffer buffer(device, stream, values.size() * sizeof(T), kind);
  device.copy(stream, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
              buffer.bytes());
  return buffer;
}

Buffer initial(const ParameterLayout& layout, Device& device, Stream& stream) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, kSeed, values);
  return upload(device, stream, values, MemoryKind::weights);
}

}  // namespace

TrainingStep::TrainingStep(const std::string& model, const Shape& sample, int batch, int threads)
    : model_(make_model(model, sample, kClasses)),
      batch_(batch),
      device_(make_device("cpu", threads)),
      stream_(device_->make_stream()),
      stage_(model_, {model_.layer_count()}, StageId{0}, kSeed, *device_, *stream_),
      optimizer_({.name = "sgd-momentum", .learning_rate = 0.01, .momentum = 0.9}, *device_,
                 *stream_, stage_.parameters().count()),
      weights_(initial(stage_.parameters(), *device_, *stream_)),
      statistics_(initial(stage_.statistics(), *device_, *stream_)) {
  images_.resize(static_cast<std::size_t>(model_.batch_shape(batch).elements()));
  for (std::size_t e = 0; e < images_.size(); ++e) images_[e] = random_uniform(kSeed, e);
  for (int i = 0; i < batch; ++i) {
    labels_.push_back(i % kClasses);
    keys_.push_back({0, i});
  }
}

void TrainingStep::run() {
  Pass pass;
  pass.samples = batch_;
  pass.keys = keys_;
  pass.images = upload(*device_, *stream_, images_, MemoryKind::activations);
  pass.labels = upload(*device_, *stream_, labels_, MemoryKind::activations);
  stage_.forward(pass, weights_.as<float>(), statistics_.as<float>(), Mode::train);
  loss_ = static_cast<double>(pass.outputs.back().as<float>()[0]);
  stage_.drop_what_backward_does_not_need(pass);
  Buffer gradient(*device_, *stream_, weights_.bytes(), MemoryKind::gradients);
  stage_.backward(pass, weights_.as<float>(), gradient.as<float>());
  optimizer_.update(minibatch_, minibatch_ + 1, gradient, weights_.as<float>());
  ++minibatch_;
  device_->add(*stream_, weights_.as<float>(), gradient.as<float>(), stage_.parameters().count());
  stream_->synchronize();
}

}  // namespace hetpipe::bench
