// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/whole_model.h"

#include "base/error.h"
#include "base/index.h"
#include "runtime/pipeline/stage_io.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kSeed = 0;  // nothing is drawn in evaluation

std::vector<int> all_but_the_loss(const Model& model) {
  return {model.layer_count() - 1, model.layer_count()};
}

}  // namespace

WholeModel::WholeModel(const Model& model, std::span<const float> parameters,
                       std::span<const float> statistics, Device& device)
    : model_(model),
      device_(device),
      stream_(device.make_stream()),
      network_(model, all_but_the_loss(model), StageId{0}, kSeed, device, *stream_),
      loss_(model, all_but_the_loss(model), StageId{1}, kSeed, device, *stream_) {
  ensure(static_cast<std::int64_t>(parameters.size()) == network_.parameters().count() &&
             static_cast<std::int64_t>(statistics.size()) == network_.statistics().count(),
         "a loss has neither parameters nor statistics");
  parameters_ = upload(parameters.data(), parameters.size_bytes(), MemoryKind::weights);
  statistics_ = upload(statistics.data(), statistics.size_bytes(), MemoryKind::weights);
  if (const auto input = model.class_input()) {
    const Shape shape = model.input_shapes(model.layer_count() - 1, 1)[*input];
    classes_ = shape[shape.rank() - 1];
    rows_ = shape.elements() / classes_;
  }
}

WholeModel::Result WholeModel::evaluate(const Batch& batch, Logits logits) {
  const Pass network = through_network(batch);
  Pass pass;
  describe(loss_, batch, {0, batch.count}, pass);
  if (loss_.reads_samples()) {
    const StoredPart images = images_of(batch, {0, batch.count});
    const Buffer stored = upload(images.from, images.bytes, MemoryKind::activations);
    pass.images =
        unpacked(loss_, stored.data(), images.bytes, batch.images.type(), batch.images.scale());
  }
  std::vector<std::byte> labels(bytes_of_labels(batch, {0, batch.count}));
  write_labels(model_, batch, {0, batch.count}, labels.data());
  pass.labels = upload(labels.data(), labels.size(), MemoryKind::activations);
  for (const Transfer& transfer : network_.outgoing()) {
    Buffer data(device_, *stream_, at(network_.transfer_bytes(transfer, batch.count)),
                MemoryKind::messages);
    network_.pack_activations(network, transfer, 0, batch.count, device_.element_type(),
                              data.data());
    pass.activations_in.push_back({&loss_.incoming().front(), std::move(data)});
  }
  loss_.forward(pass, nullptr, nullptr, Mode::evaluate);
  Result result;
  for (const float loss : download<float>(pass.outputs.back(), at(batch.count))) {
    result.loss_sum += static_cast<double>(loss);
  }
  for (const std::int32_t hits : download<std::int32_t>(pass.correct, at(batch.count))) {
    result.correct += hits;
  }
  result.labels = pass.predictions;
  if (logits == Logits::keep) result.logits = logits_of(network);
  return result;
}

std::vector<float> WholeModel::predict(const Batch& batch) {
  ensure(classes_ > 0, "a model that predicts classes");
  return logits_of(through_network(batch));
}

Pass WholeModel::through_network(const Batch& batch) {
  Pass pass;
  describe(network_, batch, {0, batch.count}, pass);
  const StoredPart images = images_of(batch, {0, batch.count});
  const Buffer stored = upload(images.from, images.bytes, MemoryKind::activations);
  pass.images =
      unpacked(network_, stored.data(), images.bytes, batch.images.type(), batch.images.scale());
  network_.forward(pass, parameters_.as<float>(), statistics_.as<float>(), Mode::evaluate);
  return pass;
}

std::vector<float> WholeModel::logits_of(const Pass& pass) {
  const int layer = model_.layer(model_.layer_count() - 1).inputs[*model_.class_input()];
  const std::int64_t count = pass.samples * rows_ * classes_;
  const Buffer& made = pass.outputs[at(layer)];
  Buffer converted;
  if (network_.element_type(layer) != ElementType::fp32) {
    converted = Buffer(device_, *stream_, at(count) * sizeof(float), MemoryKind::activations);
    device_.convert(*stream_, converted.data(), ElementType::fp32, made.data(),
                    network_.element_type(layer), count);
  }
  return download<float>(converted.bytes() > 0 ? converted : made, at(count));
}

Buffer WholeModel::upload(const void* from, std::size_t bytes, MemoryKind kind) {
  Buffer buffer(device_, *stream_, bytes, kind);
  if (bytes > 0) device_.copy(*stream_, buffer.data(), static_cast<const std::byte*>(from), bytes);
  stream_->synchronize();
  return buffer;
}

template <class T>
std::vector<T> WholeModel::download(const Buffer& buffer, std::size_t count) {
  std::vector<T> values(count);
  device_.copy(*stream_, reinterpret_cast<std::byte*>(values.data()), buffer.data(),
               count * sizeof(T));
  stream_->synchronize();
  return values;
}

}  // namespace hetpipe
