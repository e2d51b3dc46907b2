// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/layer_run.h"

#include <cmath>
#include <limits>

#include "base/random.h"

namespace hetpipe::test {
namespace {

template <class Out, class In>
std::vector<Out> pointers(In& values) {
  std::vector<Out> out;
  for (auto& v : values) out.push_back(v.data());
  return out;
}

// Filled with NaN: a kernel that reads or leaves what it should have written is found.
std::vector<float> unwritten(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count),
                            std::numeric_limits<float>::quiet_NaN());
}

}  // namespace

std::vector<float> normal_values(std::uint64_t key, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(key, i);
  return values;
}

std::string to_string(const LayerCase& c) {
  std::string text = hetpipe::to_string(c.spec) + " of";
  for (const Shape& shape : c.inputs) text += " " + hetpipe::to_string(shape);
  return text;
}

LayerValues make_values(const LayerCase& c) {
  const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
  LayerValues v;
  std::uint64_t key = 1;
  for (const Shape& s : c.inputs) v.inputs.push_back(normal_values(key++, s.elements()));
  for (const ParameterShape& p : shapes.parameters) {
    v.parameters.push_back(normal_values(key++, p.shape.elements()));
  }
  for (const ParameterShape& p : shapes.statistics) {
    v.statistics.push_back(normal_values(key++, p.shape.elements()));
    if (p.name != "variance") continue;
    for (float& x : v.statistics.back()) x = 0.5f + std::abs(x);
  }
  v.output_gradient = normal_values(key++, shapes.output.elements());
  const std::int64_t batch = c.inputs[0][0];
  for (std::int64_t n = 0; n < batch; ++n) v.samples.push_back({3, 1000 + 7 * n});
  if (std::holds_alternative<SoftmaxCrossEntropy>(c.spec)) {
    const std::int64_t classes = c.inputs[0][c.inputs[0].rank() - 1];
    for (std::int64_t n = 0; n < c.inputs[0].elements() / classes; ++n) {
      const std::uint32_t draw = random_bits(key, static_cast<std::uint64_t>(n));
      v.labels.push_back(static_cast<std::int32_t>(draw % classes));
    }
  }
  if (const auto* embedding = std::get_if<Embedding>(&c.spec)) {
    for (std::size_t i = 0; i < v.inputs[0].size(); ++i) {
      const std::uint32_t draw = random_bits(key, i);
      v.inputs[0][i] = static_cast<float>(draw % static_cast<std::uint32_t>(embedding->vocabulary));
    }
  }
  return v;
}

LayerResult run_layer(Device& device, const LayerCase& c, const LayerValues& values,
                      bool split_backward) {
  const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
  const std::unique_ptr<Stream> stream = device.make_stream();
  const std::unique_ptr<LayerKernel> kernel = device.make_kernel(c.spec, c.inputs, kLayerKey);
  const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(c.spec);

  LayerResult r;
  const auto inputs = pointers<const float*>(values.inputs);
  const auto parameters = pointers<const float*>(values.parameters);
  std::vector<std::vector<float>> kept_statistics = values.statistics;
  const auto frozen = pointers<float*>(kept_statistics);
  r.statistics = values.statistics;
  const auto updated = pointers<float*>(r.statistics);
  std::vector<std::byte> stash(static_cast<std::size_t>(shapes.stash_bytes), std::byte{0xff});
  r.output = unwritten(shapes.output.elements());
  r.evaluated = r.output;
  if (loss) r.correct.assign(static_cast<std::size_t>(shapes.output.elements()), -1);

  ForwardArguments f;
  f.inputs = inputs;
  f.parameters = parameters;
  f.labels = values.labels.data();
  f.samples = values.samples;
  f.mode = Mode::evaluate;
  f.statistics = frozen;
  f.output = r.evaluated.data();
  kernel->forward(*stream, f);
  f.mode = Mode::train;
  f.statistics = updated;
  f.output = r.output.data();
  f.stash = stash.data();
  f.correct = loss ? r.correct.data() : nullptr;
  kernel->forward(*stream, f);

  for (const Shape& s : c.inputs) r.input_gradients.push_back(unwritten(s.elements()));
  for (const ParameterShape& p : shapes.parameters) {
    r.parameter_gradients.push_back(unwritten(p.shape.elements()));
  }
  const auto input_gradients = pointers<float*>(r.input_gradients);
  const auto parameter_gradients = pointers<float*>(r.parameter_gradients);
  const std::vector<const float*> no_inputs(inputs.size(), nullptr);
  BackwardArguments b;
  b.inputs = shapes.backward_needs_input ? inputs : no_inputs;
  b.output = shapes.backward_needs_output ? r.output.data() : nullptr;
  b.output_gradient = loss ? nullptr : values.output_gradient.data();
  b.parameters = parameters;
  b.stash = stash.data();
  b.input_gradients = input_gradients;
  if (!split_backward) b.parameter_gradients = parameter_gradients;
  b.samples = values.samples;
  b.labels = values.labels.data();
  b.loss_samples = loss ? kLossSamples : 0;
  kernel->backward(*stream, b);
  if (split_backward) {
    b.input_gradients = {};
    b.parameter_gradients = parameter_gradients;
    kernel->backward(*stream, b);
  }
  stream->synchronize();
  return r;
}

}  // namespace hetpipe::test
