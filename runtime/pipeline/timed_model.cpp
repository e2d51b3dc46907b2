// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/timed_model.h"

#include <algorithm>
#include <cmath>

#include "base/masked_tokens.h"
#include "base/random.h"
#include "runtime/model/model.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kSeed = 1;

}  // namespace

TimedModel::TimedModel(const Model& model, Device& device, int batch)
    : model_(model),
      device_(device),
      batch_(batch),
      stream_(device.make_stream()),
      parameters_(ParameterLayout::parameters(model, 0, model.layer_count())),
      groups_(make_groups(model, 0, model.layer_count(), batch, kSeed, device)) {
  make_samples();
  for (int l = 0; l < model.layer_count(); ++l) {
    shapes_.push_back(model.shapes(l, batch));
    device
        .make_kernel(model.layer(l).spec, model.input_shapes(l, batch),
                     layer_key(model.layer(l), kSeed))
        ->adjust(shapes_.back());
  }
  states_.resize(groups_.size());
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const LayerGroup& group = groups_[i];
    State& s = states_[i];
    if (group.in_place) {
      s.output = producer(group.inputs[*group.in_place]).output;
    } else {
      s.output_memory = make(output_bytes(group.last()), MemoryKind::activations);
      s.output = s.output_memory.data();
    }
    s.stash = make(group.shapes.stash_bytes, MemoryKind::activations);
  }
  make_parameters();
  for (std::size_t i = groups_.size(); i-- > 0;) connect(i);
  synchronize();
}

TimedModel::State& TimedModel::producer(int layer) {
  const auto found = std::ranges::find(groups_, layer, &LayerGroup::last);
  return states_[static_cast<std::size_t>(found - groups_.begin())];
}

std::int64_t TimedModel::output_bytes(int layer) const {
  return shapes_[index(layer)].output.elements() *
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
  const std::int64_t tokens = model_.labels_per_sample();
  // Of one cross-entropy any class; labels of several losses, or that are numbers, are 0.
  const bool one_loss = std::holds_alternative<SoftmaxCrossEntropy>(model_.layers().back().spec);
  const int classes = one_loss ? model_.classes() : 1;
  for (std::int64_t i = 0; i < batch_ * tokens; ++i) {
    const bool predicted = i % tokens < model_.predictions_per_sample();
    labels.push_back(predicted ? static_cast<std::int32_t>(i % classes) : kNoLabel);
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
  const auto statistics = ParameterLayout::statistics(model_, 0, model_.layer_count());
  std::vector<float> values(static_cast<std::size_t>(parameters_.count()));
  velocity_ = upload(values, MemoryKind::optimizer);
  std::vector<float> parts(values.size() + static_cast<std::size_t>(parameters_.use_count()));
  gradients_ = upload(parts, MemoryKind::gradients);
  delta_ = upload(values, MemoryKind::gradients);
  fill_initial(parameters_, kSeed, values);
  weights_ = upload(values, MemoryKind::weights);
  values.resize(static_cast<std::size_t>(statistics.count()));
  fill_initial(statistics, kSeed, values);
  statistics_ = upload(values, MemoryKind::weights);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    State& s = states_[i];
    const int first = groups_[i].first, end = groups_[i].end;
    for (const ParameterEntry& entry : parameters_.of_layers(first, end)) {
      float* const own = gradients_.as<float>();
      s.parameters.push_back(parameters_.weight_of<float>(entry, weights_.as<float>(), nullptr));
      s.parameter_gradients.push_back((entry.is_own() ? own : own + parameters_.count()) +
                                      entry.offset);
    }
    for (const ParameterEntry& entry : statistics.of_layers(first, end)) {
      s.statistics.push_back(statistics_.as<float>() + entry.offset);
    }
  }
}

// Inputs and where their gradients go; called from the last group to the first, as backward runs:
// a tensor's last consumer writes its gradient, the earlier ones add to it.
void TimedModel::connect(std::size_t number) {
  const LayerGroup& group = groups_[number];
  State& s = states_[number];
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    const int input = group.inputs[i];
    Buffer& extra = s.extra.emplace_back();
    if (input == kSamples) {
      s.inputs.push_back(images_.data());
      s.input_gradients.push_back(nullptr);
    } else {
      State& from = producer(input);
      const std::int64_t bytes = output_bytes(input);
      s.inputs.push_back(from.output);
      if (from.gradient != nullptr) {
        extra = make(bytes, MemoryKind::workspace);
        s.input_gradients.push_back(extra.data());
      } else if (i == group.shapes.in_place_input && group.shapes.backward_in_place) {
        s.input_gradients.push_back(from.gradient = s.gradient);
      } else {
        from.gradient_memory = make(bytes, MemoryKind::gradients);
        s.input_gradients.push_back(from.gradient = from.gradient_memory.data());
      }
    }
    s.backward_inputs.push_back(group.read_in_backward[i] ? s.inputs.back() : nullptr);
  }
}

Buffer TimedModel::upload(std::span<const std::byte> bytes, MemoryKind kind) {
  Buffer buffer(device_, *stream_, bytes.size(), kind);
  if (!bytes.empty()) device_.copy(*stream_, buffer.data(), bytes.data(), bytes.size());
  stream_->synchronize();
  return buffer;
}

void TimedModel::forward(std::size_t group) {
  State& s = states_[group];
  const bool loss = group + 1 == groups_.size();
  groups_[group].kernel->forward(*stream_,
                                 {.inputs = s.inputs,
                                  .parameters = s.parameters,
                                  .statistics = s.statistics,
                                  .output = s.output,
                                  .stash = s.stash.data(),
                                  .mode = Mode::train,
                                  .samples = keys_,
                                  .labels = loss ? labels_.as<std::int32_t>() : nullptr,
                                  .correct = loss ? correct_.as<std::int32_t>() : nullptr});
}

void TimedModel::backward(std::size_t number) {
  const LayerGroup& group = groups_[number];
  State& s = states_[number];
  const bool loss = number + 1 == groups_.size();
  group.kernel->backward(*stream_,
                         {.inputs = s.backward_inputs,
                          .output = group.shapes.backward_needs_output ? s.output : nullptr,
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
    const int input = group.inputs[k];
    device_.accumulate(*stream_, producer(input).gradient, s.extra[k].data(),
                       shapes(input).output.elements());
  }
}

// The rate is 0, so that weights stay what they are however often this runs.
void TimedModel::update(int layer) {
  std::int64_t first = 0, count = 0;
  for (const ParameterEntry& entry : parameters_.of_layer(layer)) {
    if (!entry.is_own()) continue;
    if (count == 0) first = entry.offset;
    count += entry.count;
  }
  if (count == 0) return;
  float* const weights = weights_.as<float>() + first;
  float* const delta = delta_.as<float>() + first;
  device_.sgd(*stream_, delta, velocity_.as<float>() + first, gradients_.as<float>() + first,
              weights, {.rate = 0, .momentum = 0.9f}, count);
  device_.add(*stream_, weights, delta, count);
}

}  // namespace hetpipe
