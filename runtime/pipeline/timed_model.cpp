// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/timed_model.h"

#include <cmath>

#include "base/random.h"
#include "runtime/model/element_types.h"
#include "runtime/model/in_place.h"
#include "runtime/model/parameters.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kSeed = 1;

}  // namespace

TimedModel::TimedModel(const Model& model, Device& device, int batch)
    : model_(model), device_(device), batch_(batch), stream_(device.make_stream()) {
  make_samples();
  states_.resize(index(model.layer_count()));
  for (int i = 0; i < model.layer_count(); ++i) {
    State& s = states_[index(i)];
    s.shapes = model.shapes(i, batch);
    s.kernel = device.make_kernel(model.layer(i).spec, model.input_shapes(i, batch),
                                  layer_key(model.layer(i), kSeed));
    s.kernel->adjust(s.shapes);
    if (forward_in_place(model, i, 0)) {
      s.output = states_[index(model.layer(i).inputs.front())].output;
    } else {
      s.output_memory = make(output_bytes(i), MemoryKind::activations);
      s.output = s.output_memory.data();
    }
    s.stash = make(s.shapes.stash_bytes, MemoryKind::activations);
  }
  make_parameters();
  for (int i = model.layer_count() - 1; i >= 0; --i) connect(i);
  synchronize();
}

std::int64_t TimedModel::output_bytes(int layer) const {
  return states_[index(layer)].shapes.output.elements() *
         static_cast<std::int64_t>(bytes_of(output_type(model_, layer, device_.element_type())));
}

void TimedModel::make_samples() {
  std::vector<float> images(static_cast<std::size_t>(model_.batch_shape(batch_).elements()));
  const int vocabulary = model_.vocabulary();
  for (std::size_t e = 0; e < images.size(); ++e) {
    images[e] = random_uniform(kSeed, e);
    if (vocabulary > 0) images[e] = std::floor(images[e] * static_cast<float>(vocabulary));
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch_ * model_.labels_per_sample(); ++i) {
    labels.push_back(static_cast<std::int32_t>(i % model_.classes()));
  }
  for (int i = 0; i < batch_; ++i) keys_.push_back({0, i});
  images_ = upload(images, MemoryKind::activations);
  const ElementType type = sample_type(model_, device_.element_type());
  if (type != ElementType::fp32) {
    const auto elements = static_cast<std::int64_t>(images.size());
    Buffer converted =
        make(elements * static_cast<std::int64_t>(bytes_of(type)), MemoryKind::activations);
    device_.convert(*stream_, converted.data(), type, images_.data(), ElementType::fp32, elements);
    images_ = std::move(converted);
  }
  labels_ = upload(std::as_bytes(std::span<const std::int32_t>(labels)), MemoryKind::activations);
  correct_ = make(batch_ * 4, MemoryKind::activations);
}

void TimedModel::make_parameters() {
  const auto layout = ParameterLayout::parameters(model_, 0, model_.layer_count());
  const auto statistics = ParameterLayout::statistics(model_, 0, model_.layer_count());
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  velocity_ = upload(values, MemoryKind::optimizer);
  gradients_ = upload(values, MemoryKind::gradients);
  delta_ = upload(values, MemoryKind::gradients);
  fill_initial(layout, kSeed, values);
  weights_ = upload(values, MemoryKind::weights);
  values.resize(static_cast<std::size_t>(statistics.count()));
  fill_initial(statistics, kSeed, values);
  statistics_ = upload(values, MemoryKind::weights);
  for (const ParameterEntry& entry : layout.entries()) {
    State& s = states_[index(entry.layer)];
    if (s.parameters.empty()) s.first_parameter = entry.offset;
    s.parameter_count += entry.count;
    s.parameters.push_back(weights_.as<float>() + entry.offset);
    s.parameter_gradients.push_back(gradients_.as<float>() + entry.offset);
  }
  for (const ParameterEntry& entry : statistics.entries()) {
    states_[index(entry.layer)].statistics.push_back(statistics_.as<float>() + entry.offset);
  }
}

// Inputs and where their gradients go; called from the last layer to the first, as backward runs:
// a tensor's last consumer writes its gradient, the earlier ones add to it.
void TimedModel::connect(int layer) {
  State& s = states_[index(layer)];
  for (int input : model_.layer(layer).inputs) {
    const bool first = s.input_gradients.empty();
    Buffer& extra = s.extra.emplace_back();
    if (input == kSamples) {
      s.inputs.push_back(images_.data());
      s.input_gradients.push_back(nullptr);
    } else {
      State& producer = states_[index(input)];
      const std::int64_t bytes = output_bytes(input);
      s.inputs.push_back(producer.output);
      if (producer.gradient != nullptr) {
        extra = make(bytes, MemoryKind::workspace);
        s.input_gradients.push_back(extra.data());
      } else if (first && s.shapes.backward_in_place) {
        s.input_gradients.push_back(producer.gradient = s.gradient);
      } else {
        producer.gradient_memory = make(bytes, MemoryKind::gradients);
        s.input_gradients.push_back(producer.gradient = producer.gradient_memory.data());
      }
    }
    s.backward_inputs.push_back(s.shapes.backward_needs_input ? s.inputs.back() : nullptr);
  }
}

Buffer TimedModel::upload(std::span<const std::byte> bytes, MemoryKind kind) {
  Buffer buffer(device_, *stream_, bytes.size(), kind);
  if (!bytes.empty()) device_.copy(*stream_, buffer.data(), bytes.data(), bytes.size());
  stream_->synchronize();
  return buffer;
}

void TimedModel::forward(int layer) {
  State& s = states_[index(layer)];
  const bool loss = layer + 1 == model_.layer_count();
  s.kernel->forward(*stream_, {.inputs = s.inputs,
                               .parameters = s.parameters,
                               .statistics = s.statistics,
                               .output = s.output,
                               .stash = s.stash.data(),
                               .mode = Mode::train,
                               .samples = keys_,
                               .labels = loss ? labels_.as<std::int32_t>() : nullptr,
                               .correct = loss ? correct_.as<std::int32_t>() : nullptr});
}

void TimedModel::backward(int layer) {
  State& s = states_[index(layer)];
  const bool loss = layer + 1 == model_.layer_count();
  s.kernel->backward(*stream_, {.inputs = s.backward_inputs,
                                .output = s.shapes.backward_needs_output ? s.output : nullptr,
                                .output_gradient = s.gradient,
                                .parameters = s.parameters,
                                .stash = s.stash.data(),
                                .input_gradients = s.input_gradients,
                                .parameter_gradients = s.parameter_gradients,
                                .samples = keys_,
                                .labels = loss ? labels_.as<std::int32_t>() : nullptr,
                                .loss_samples = batch_});
  for (std::size_t k = 0; k < s.extra.size(); ++k) {
    if (!s.extra[k]) continue;
    const State& producer = states_[index(model_.layer(layer).inputs[k])];
    device_.accumulate(*stream_, producer.gradient, s.extra[k].data(),
                       producer.shapes.output.elements());
  }
}

// The rate is 0, so that weights stay what they are however often this runs.
void TimedModel::update(int layer) {
  const State& s = states_[index(layer)];
  if (s.parameter_count == 0) return;
  float* const weights = weights_.as<float>() + s.first_parameter;
  float* const delta = delta_.as<float>() + s.first_parameter;
  device_.sgd(*stream_, delta, velocity_.as<float>() + s.first_parameter,
              gradients_.as<float>() + s.first_parameter, weights, {.rate = 0, .momentum = 0.9f},
              s.parameter_count);
  device_.add(*stream_, weights, delta, s.parameter_count);
}

}  // namespace hetpipe
