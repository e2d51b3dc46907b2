// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_layers.h"

#include "base/error.h"

namespace hetpipe {
namespace {

std::size_t bytes_of(const Shape& shape) {
  return static_cast<std::size_t>(shape.elements()) * sizeof(float);
}

// Where each parameter of a layer starts.
std::vector<float*> pointers(const std::vector<ParameterShape>& shapes, const Buffer& values) {
  std::vector<float*> result;
  std::int64_t offset = 0;
  for (const ParameterShape& parameter : shapes) {
    result.push_back(values.as<float>() + offset);
    offset += parameter.shape.elements();
  }
  ensure(static_cast<std::size_t>(offset) * sizeof(float) == values.bytes(),
         "as many values as the layer has");
  return result;
}

std::vector<const float*> read_only(const std::vector<float*>& pointers) {
  return {pointers.begin(), pointers.end()};
}

}  // namespace

SerialLayers::SerialLayers(const Model& model, Device& device, std::uint64_t seed)
    : model_(model), device_(device), seed_(seed), stream_(device.make_stream()) {}

SerialLayers::Kept SerialLayers::forward(int layer, const std::vector<const Floats*>& inputs,
                                         std::span<const float> weights,
                                         std::span<float> statistics, const Samples& samples) {
  const Ready& of = ready(layer, samples.keys.size());
  std::vector<Buffer> input_buffers;
  std::vector<const std::byte*> input_pointers;
  for (const Floats* input : inputs) {
    input_buffers.push_back(upload<float>(*input));
    input_pointers.push_back(input_buffers.back().data());
  }
  const Buffer parameters = upload(weights);
  const Buffer running = upload(std::span<const float>(statistics));
  const Buffer labels = upload<std::int32_t>(label_rows(samples.labels, samples.mixed));
  const Buffer output = buffer(bytes_of(of.shapes.output));
  const Buffer stash = buffer(static_cast<std::size_t>(of.shapes.stash_bytes));
  const auto parameter_pointers = read_only(pointers(of.shapes.parameters, parameters));
  const auto running_pointers = pointers(of.shapes.statistics, running);
  of.kernel->forward(*stream_, {.inputs = input_pointers,
                                .parameters = parameter_pointers,
                                .statistics = running_pointers,
                                .output = output.data(),
                                .stash = stash.data(),
                                .mode = Mode::train,
                                .samples = samples.keys,
                                .labels = is_loss(layer) ? labels.as<std::int32_t>() : nullptr});
  const Floats updated = download<float>(running);
  std::copy(updated.begin(), updated.end(), statistics.begin());
  return {download<float>(output), download<std::byte>(stash)};
}

SerialLayers::Gradients SerialLayers::backward(int layer, const std::vector<const Floats*>& inputs,
                                               const Kept& kept, const Floats* output_gradient,
                                               std::span<const float> weights,
                                               const Samples& samples, std::int64_t loss_samples) {
  const Ready& of = ready(layer, samples.keys.size());
  ensure(is_loss(layer) == (output_gradient == nullptr), "every layer but the loss has consumers");
  const std::vector<int>& producers = model_.layer(layer).inputs;
  std::vector<Buffer> input_buffers, gradient_buffers;
  std::vector<const std::byte*> input_pointers;
  std::vector<std::byte*> gradient_pointers;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    input_buffers.push_back(upload<float>(*inputs[i]));
    const bool needed = of.shapes.backward_needs_input;
    input_pointers.push_back(needed ? input_buffers.back().data() : nullptr);
    const bool wanted = producers[i] != kSamples;
    gradient_buffers.push_back(buffer(wanted ? bytes_of(of.inputs[i]) : 0));
    gradient_pointers.push_back(wanted ? gradient_buffers.back().data() : nullptr);
  }
  const Buffer parameters = upload(weights);
  const Buffer parameter_gradients = buffer(weights.size_bytes());
  const Buffer labels = upload<std::int32_t>(label_rows(samples.labels, samples.mixed));
  const Buffer output = upload<float>(kept.output);
  const Buffer stash = upload<std::byte>(kept.stash);
  const Buffer gradient = upload<float>(output_gradient ? *output_gradient : Floats{});
  const auto parameter_pointers = read_only(pointers(of.shapes.parameters, parameters));
  const auto parameter_gradient_pointers = pointers(of.shapes.parameters, parameter_gradients);
  of.kernel->backward(*stream_,
                      {.inputs = input_pointers,
                       .output = of.shapes.backward_needs_output ? output.data() : nullptr,
                       .output_gradient = output_gradient ? gradient.data() : nullptr,
                       .parameters = parameter_pointers,
                       .stash = stash.data(),
                       .input_gradients = gradient_pointers,
                       .parameter_gradients = parameter_gradient_pointers,
                       .samples = samples.keys,
                       .labels = is_loss(layer) ? labels.as<std::int32_t>() : nullptr,
                       .loss_samples = loss_samples});
  Gradients gradients;
  for (const Buffer& input : gradient_buffers) gradients.inputs.push_back(download<float>(input));
  gradients.parameters = download<float>(parameter_gradients);
  return gradients;
}

const SerialLayers::Ready& SerialLayers::ready(int layer, std::size_t samples) {
  const auto [found, added] = ready_.try_emplace({layer, samples});
  Ready& of = found->second;
  if (added) {
    const auto batch = static_cast<std::int64_t>(samples);
    of.inputs = model_.input_shapes(layer, batch);
    of.shapes = model_.shapes(layer, batch);
    of.kernel = device_.make_kernel(model_.layer(layer).spec, of.inputs,
                                    layer_key(model_.layer(layer), seed_));
  }
  return of;
}

Buffer SerialLayers::buffer(std::size_t bytes) const {
  return Buffer(device_, *stream_, bytes, MemoryKind::workspace);
}

template <class T>
Buffer SerialLayers::upload(std::span<const T> values) const {
  Buffer to = buffer(values.size_bytes());
  if (values.empty()) return to;
  device_.copy(*stream_, to.data(), std::as_bytes(values).data(), values.size_bytes());
  stream_->synchronize();
  return to;
}

template <class T>
std::vector<T> SerialLayers::download(const Buffer& from) const {
  std::vector<T> values(from.bytes() / sizeof(T));
  if (values.empty()) return values;
  device_.copy(*stream_, std::as_writable_bytes(std::span(values)).data(), from.data(),
               from.bytes());
  stream_->synchronize();
  return values;
}

}  // namespace hetpipe
