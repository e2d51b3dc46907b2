// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_model.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"

namespace hetpipe {
namespace {

std::vector<float*> pointers_of(const ParameterLayout& layout, int layer, const Buffer& values) {
  std::vector<float*> pointers;
  for (const ParameterEntry& entry : layout.of_layer(layer)) {
    pointers.push_back(values.as<float>() + entry.offset);
  }
  return pointers;
}

}  // namespace

struct SerialModel::LayerState {
  LayerShapes shapes;
  std::unique_ptr<LayerKernel> kernel;
  Buffer output, stash;
  Buffer gradient;                    // of the loss by the output
  std::vector<Buffer> contributions;  // to the inputs' gradients
  std::vector<float*> parameters, statistics, parameter_gradients;
};

double SerialModel::Result::mean_loss() const {
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
}

SerialModel::SerialModel(const Model& model, Device& device, std::uint64_t seed)
    : model_(model),
      device_(device),
      seed_(seed),
      stream_(device.make_stream()),
      parameter_layout_(ParameterLayout::parameters(model, 0, model.layer_count())),
      statistics_layout_(ParameterLayout::statistics(model, 0, model.layer_count())) {
  std::vector<float> values(static_cast<std::size_t>(parameter_layout_.count()));
  gradients_ = buffer_of(values);
  fill_initial(parameter_layout_, seed, values);
  parameters_ = buffer_of(values);
  values.resize(static_cast<std::size_t>(statistics_layout_.count()));
  fill_initial(statistics_layout_, seed, values);
  statistics_ = buffer_of(values);
  uses_ = buffer_of(std::vector<float>(static_cast<std::size_t>(parameter_layout_.use_count())));
}

// Kernels and buffers for this number of samples.
void SerialModel::prepare(std::int64_t batch) {
  if (batch == batch_) return;
  layers_.clear();
  batch_ = batch;
  const auto make = [&](std::int64_t bytes) {
    return Buffer(device_, *stream_, static_cast<std::size_t>(bytes), MemoryKind::activations);
  };
  images_ = make(model_.batch_shape(batch).elements() * 4);
  labels_ = make(batch * (model_.labels_per_sample() + 2) * 4);
  correct_ = make(batch * 4);
  for (int i = 0; i < model_.layer_count(); ++i) {
    auto state = std::make_shared<LayerState>();
    const std::vector<Shape> inputs = model_.input_shapes(i, batch);
    state->shapes = model_.shapes(i, batch);
    state->kernel =
        device_.make_kernel(model_.layer(i).spec, inputs, layer_key(model_.layer(i), seed_));
    state->output = make(state->shapes.output.elements() * 4);
    state->stash = make(state->shapes.stash_bytes);
    state->gradient = make(state->shapes.output.elements() * 4);
    for (const Shape& input : inputs) {
      state->contributions.push_back(make(input.elements() * 4));
    }
    for (const ParameterEntry& entry : parameter_layout_.of_layer(i)) {
      state->parameters.push_back(
          parameter_layout_.weight_of<float>(entry, parameters_.as<float>(), nullptr));
      const Buffer& gradients = entry.is_own() ? gradients_ : uses_;
      state->parameter_gradients.push_back(gradients.as<float>() + entry.offset);
    }
    state->statistics = pointers_of(statistics_layout_, i, statistics_);
    layers_.push_back(std::move(state));
  }
}

SerialModel::Result SerialModel::forward(std::span<const float> images,
                                         std::span<const std::int32_t> labels,
                                         std::span<const SampleKey> keys, Mode mode,
                                         bool update_statistics) {
  prepare(static_cast<std::int64_t>(keys.size()));
  const auto* loss_spec = std::get_if<SoftmaxCrossEntropy>(&model_.layers().back().spec);
  const bool mixed = mode == Mode::train && loss_spec != nullptr && loss_spec->mixed;
  ensure(labels.size() ==
             keys.size() * static_cast<std::size_t>(model_.labels_per_sample() + (mixed ? 2 : 0)),
         "as many labels as the keys' samples have");
  upload(images_, images);
  device_.copy(*stream_, labels_.data(), std::as_bytes(labels).data(), labels.size_bytes());
  keys_.assign(keys.begin(), keys.end());
  mode_ = mode;
  for (int i = 0; i < model_.layer_count(); ++i) {
    LayerState& layer = *layers_[static_cast<std::size_t>(i)];
    const bool loss = i + 1 == model_.layer_count();
    std::vector<const std::byte*> inputs;
    for (int input : model_.layer(i).inputs) inputs.push_back(value_of(input));
    const std::vector<const float*> weights(layer.parameters.begin(), layer.parameters.end());
    layer.kernel->forward(*stream_, {.inputs = inputs,
                                     .parameters = weights,
                                     .statistics = layer.statistics,
                                     .output = layer.output.data(),
                                     .stash = layer.stash.data(),
                                     .mode = mode,
                                     .samples = keys_,
                                     .labels = loss ? labels_.as<std::int32_t>() : nullptr,
                                     .correct = loss ? correct_.as<std::int32_t>() : nullptr,
                                     .update_statistics = update_statistics});
  }
  Result result{download(layers_.back()->output), std::vector<std::int32_t>(keys.size())};
  device_.copy(*stream_, std::as_writable_bytes(std::span(result.correct)).data(), correct_.data(),
               correct_.bytes());
  stream_->synchronize();
  return result;
}

std::vector<float> SerialModel::backward(std::int64_t loss_samples) {
  ensure(mode_ == Mode::train, "a forward in training comes before its backward");
  std::vector<bool> has_gradient(layers_.size(), false);
  for (int i = model_.layer_count() - 1; i >= 0; --i) {
    LayerState& layer = *layers_[static_cast<std::size_t>(i)];
    const std::vector<int>& producers = model_.layer(i).inputs;
    const bool loss = i + 1 == model_.layer_count();
    ensure(loss || has_gradient[static_cast<std::size_t>(i)], "every layer has a consumer");
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> input_gradients;
    for (std::size_t k = 0; k < producers.size(); ++k) {
      inputs.push_back(layer.shapes.backward_needs_input ? value_of(producers[k]) : nullptr);
      input_gradients.push_back(producers[k] == kSamples ? nullptr : layer.contributions[k].data());
    }
    const std::vector<const float*> weights(layer.parameters.begin(), layer.parameters.end());
    layer.kernel->backward(
        *stream_, {.inputs = inputs,
                   .output = layer.shapes.backward_needs_output ? layer.output.data() : nullptr,
                   .output_gradient = loss ? nullptr : layer.gradient.data(),
                   .parameters = weights,
                   .stash = layer.stash.data(),
                   .input_gradients = input_gradients,
                   .parameter_gradients = layer.parameter_gradients,
                   .samples = keys_,
                   .labels = loss ? labels_.as<std::int32_t>() : nullptr,
                   .loss_samples = loss_samples == 0 ? batch_ : loss_samples});
    // Consumers come in descending order here: the last one's contribution is the start of the sum.
    for (std::size_t k = 0; k < producers.size(); ++k) {
      if (producers[k] == kSamples) continue;
      const std::size_t producer = static_cast<std::size_t>(producers[k]);
      const Buffer& sum = layers_[producer]->gradient;
      const Buffer& part = layer.contributions[k];
      if (has_gradient[producer]) {
        device_.add(*stream_, sum.as<float>(), part.as<float>(),
                    layers_[producer]->shapes.output.elements());
      } else {
        device_.copy(*stream_, sum.data(), part.data(), part.bytes());
        has_gradient[producer] = true;
      }
    }
  }
  sum_shared_gradients();
  return download(gradients_);
}

// Parts of users from the last layer to the first, then the owner's own.
void SerialModel::sum_shared_gradients() {
  const std::vector<ParameterEntry>& entries = parameter_layout_.entries();
  std::map<std::string, float*> sums;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    const auto sum = sums.find(entry->name);
    if (entry->is_own()) {
      if (sum == sums.end()) continue;
      device_.add(*stream_, gradients_.as<float>() + entry->offset, sum->second, entry->count);
    } else if (float* const part = uses_.as<float>() + entry->offset; sum == sums.end()) {
      sums[entry->name] = part;
    } else {
      device_.add(*stream_, sum->second, part, entry->count);
    }
  }
}

std::vector<float> SerialModel::sgd_delta(std::span<const float> gradient,
                                          std::vector<float>& velocity, const SgdOptions& options) {
  const Buffer g = buffer_of(gradient), v = buffer_of(velocity), delta = buffer_of(gradient);
  device_.sgd(*stream_, delta.as<float>(), v.as<float>(), g.as<float>(), parameters_.as<float>(),
              options, parameter_layout_.count());
  velocity = download(v);
  return download(delta);
}

std::vector<float> SerialModel::adam_delta(std::span<const float> gradient,
                                           std::vector<float>& first, std::vector<float>& second,
                                           const AdamOptions& options, std::int64_t step) {
  const Buffer g = buffer_of(gradient), m = buffer_of(first), v = buffer_of(second);
  const Buffer delta = buffer_of(gradient);
  device_.adam(*stream_, delta.as<float>(), m.as<float>(), v.as<float>(), g.as<float>(),
               parameters_.as<float>(), options, step, parameter_layout_.count());
  first = download(m);
  second = download(v);
  return download(delta);
}

void SerialModel::add_to_parameters(std::span<const float> delta) {
  const Buffer d = buffer_of(delta);
  device_.add(*stream_, parameters_.as<float>(), d.as<float>(), parameter_layout_.count());
  stream_->synchronize();
}

Buffer SerialModel::buffer_of(std::span<const float> values) {
  Buffer buffer(device_, *stream_, values.size_bytes(), MemoryKind::workspace);
  upload(buffer, values);
  return buffer;
}

void SerialModel::upload(const Buffer& to, std::span<const float> values) {
  ensure(values.size_bytes() == to.bytes(), "as many values as the buffer holds");
  if (values.empty()) return;
  device_.copy(*stream_, to.data(), std::as_bytes(values).data(), values.size_bytes());
  stream_->synchronize();
}

std::vector<float> SerialModel::download(const Buffer& from) const {
  std::vector<float> values(from.bytes() / sizeof(float));
  if (values.empty()) return values;
  device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), from.data(),
               from.bytes());
  stream_->synchronize();
  return values;
}

const std::byte* SerialModel::value_of(int layer) const {
  return layer == kSamples ? images_.data()
                           : layers_[static_cast<std::size_t>(layer)]->output.data();
}

}  // namespace hetpipe
