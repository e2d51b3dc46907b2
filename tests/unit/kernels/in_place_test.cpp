// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "kernels/devices.h"
#include "kernels/host_device.h"
#include "tests/unit/kernels/layer_cases.h"

// Layers that may write over their first input, or their gradient over the output's, do so without
// a bit of difference.
namespace hetpipe {
namespace in_place_test {

using test::LayerCase;
using test::LayerResult;
using test::LayerValues;

template <class T>
std::vector<T*> pointers(std::vector<std::vector<float>>& values) {
  std::vector<T*> result;
  for (auto& v : values) result.push_back(v.data());
  return result;
}

template <class Byte>
std::vector<Byte*> byte_pointers(std::vector<std::vector<float>>& values) {
  std::vector<Byte*> result;
  for (auto& v : values) result.push_back(activations(v.data()));
  return result;
}

struct InPlace {
  std::vector<float> output, evaluated, input_gradient;
};

InPlace run_in_place(Device& device, const LayerCase& c, LayerValues values) {
  const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
  const auto stream = device.make_stream();
  const auto kernel = device.make_kernel(c.spec, c.inputs, test::kLayerKey);
  const auto parameters = pointers<const float>(values.parameters);
  std::vector<std::byte> stash(static_cast<std::size_t>(shapes.stash_bytes));
  const auto forward = [&](Mode mode) {
    std::vector<std::vector<float>> inputs = values.inputs, statistics = values.statistics;
    std::vector<float> apart(static_cast<std::size_t>(shapes.output.elements()));
    const auto in = byte_pointers<const std::byte>(inputs);
    const auto running = pointers<float>(statistics);
    float* const output = shapes.forward_in_place ? inputs[0].data() : apart.data();
    kernel->forward(*stream, {.inputs = in,
                              .parameters = parameters,
                              .statistics = running,
                              .output = activations(output),
                              .stash = stash.data(),
                              .mode = mode,
                              .samples = values.samples,
                              .labels = nullptr,
                              .correct = nullptr,
                              .update_statistics = true});
    return shapes.forward_in_place ? inputs[0] : apart;
  };
  InPlace result;
  result.evaluated = forward(Mode::evaluate);
  result.output = forward(Mode::train);
  result.input_gradient = values.output_gradient;
  std::vector<float> second(values.output_gradient.size());
  std::vector<std::byte*> gradients{activations(result.input_gradient.data())};
  if (c.inputs.size() > 1) gradients.push_back(activations(second.data()));
  std::vector<std::vector<float>> parameter_gradients = values.parameters;
  const auto dparameters = pointers<float>(parameter_gradients);
  const auto in = byte_pointers<const std::byte>(values.inputs);
  kernel->backward(*stream, {.inputs = in,
                             .output = activations(result.output.data()),
                             .output_gradient = activations(result.input_gradient.data()),
                             .parameters = parameters,
                             .stash = stash.data(),
                             .input_gradients = gradients,
                             .parameter_gradients = dparameters,
                             .samples = values.samples,
                             .labels = nullptr,
                             .loss_samples = 0});
  return result;
}

std::vector<LayerCase> cases() {
  const Shape image{3, 7, 5, 33};
  const Shape large{4, 40, 40, 16};  // several pieces for the device's threads
  const Shape rows{3, 130, 65};
  std::vector<LayerCase> all{{PositionEmbedding{}, {rows}}, {LayerNorm{}, {rows}}};
  for (const Shape& shape : {image, large}) {
    for (const LayerCase& c :
         {LayerCase{Add{}, {shape, shape}}, LayerCase{Dropout{0.3f}, {shape}},
          LayerCase{BatchNorm{}, {shape}}, LayerCase{AlphaDropout{0.3f}, {shape}}}) {
      all.push_back(c);
    }
  }
  for (const Shape& shape : {image, large, rows}) {
    for (const LayerCase& c : test::elementwise_cases(shape)) all.push_back(c);
  }
  return all;
}

TEST(InPlaceKernels, GiveTheSameBits) {
  for (const std::string name : {"cpu", "reference"}) {
    for (int threads : {1, 2}) {
      if (name == "reference" && threads == 2) continue;
      const auto device = make_device(name, threads);
      for (const LayerCase& c : cases()) {
        SCOPED_TRACE(name + " " + to_string(c));
        ASSERT_TRUE(infer_shapes(c.spec, c.inputs).backward_in_place);
        const LayerValues values = make_values(c);
        const LayerResult apart = run_layer(*device, c, values);
        const InPlace in_place = run_in_place(*device, c, values);
        EXPECT_EQ(in_place.output, apart.output);
        EXPECT_EQ(in_place.evaluated, apart.evaluated);
        EXPECT_EQ(in_place.input_gradient, apart.input_gradients[0]);
      }
    }
  }
}

TEST(InPlaceKernels, OthersDoNotPromiseIt) {
  for (const LayerSpec& spec : std::vector<LayerSpec>{Convolution{.output_channels = 3}, MaxPool{},
                                                      GlobalAveragePool{}, Flatten{}, Shift{}}) {
    const LayerShapes shapes = infer_shapes(spec, {Shape{2, 8, 8, 3}});
    EXPECT_FALSE(shapes.forward_in_place || shapes.backward_in_place) << to_string(spec);
  }
}

}  // namespace in_place_test
}  // namespace hetpipe
