// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/chain.h"
#include "kernels/device.h"
#include "kernels/layer.h"

// Runs one layer, or a chain that a device fuses, on one device, from fixed pseudo-random inputs to
// everything it computes.
namespace hetpipe::test {

// `count` draws from the normal distribution, the same for the same key.
std::vector<float> normal_values(std::uint64_t key, std::int64_t count);

struct LayerCase {
  LayerSpec spec;
  std::vector<Shape> inputs;
};
std::string to_string(const LayerCase& c);

// What a layer is given; exact-sized heap memory, so that the address sanitizer sees every overrun.
struct LayerValues {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> statistics;
  std::vector<float> output_gradient;
  std::vector<SampleKey> samples;
  std::vector<std::int32_t> labels;  // loss only
};
LayerValues make_values(const LayerCase& c);
LayerValues make_values(std::span<const ChainedLayer> chain);

struct LayerResult {
  std::vector<float> output;
  std::vector<float> evaluated;  // output in evaluate mode, with the statistics of `c`'s values
  std::vector<std::vector<float>> input_gradients;
  std::vector<std::vector<float>> parameter_gradients;
  std::vector<std::vector<float>> statistics;
  std::vector<std::int32_t> correct;
};
struct RunOptions {
  // Backward asks for the gradients of the inputs and then for those of the parameters.
  bool split_backward = false;
  // Forward writes over an input, backward over the output's gradient, where they may.
  bool in_place = false;
  // Tensors start so many elements behind the start of a block, as inside a packed message.
  std::int64_t offset = 0;
};
// On any device: memory is the device's own, exact-sized, NaN before it is written. Activations are
// rounded to the device's element type and come back as floats.
LayerResult run_layer(Device& device, const LayerCase& c, const LayerValues& values,
                      const RunOptions& options = {});
// The same of layers that the device fuses: std::runtime_error where it does not.
LayerResult run_chain(Device& device, std::span<const ChainedLayer> chain,
                      const LayerValues& values, const RunOptions& options = {});

inline constexpr std::uint64_t kLayerKey = 77;
inline constexpr std::int64_t kLossSamples = 24;

}  // namespace hetpipe::test
