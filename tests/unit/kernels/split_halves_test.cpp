// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "kernels/devices.h"
#include "kernels/host_device.h"
#include "tests/unit/kernels/layer_cases.h"

// A split backward asks for the input gradients first and for the parameter gradients later: null
// pointers, or empty spans, for what is not wanted. Both halves have the bits of the whole.
namespace hetpipe {
namespace split_halves_test {

using test::LayerCase;
using test::LayerValues;
using Arrays = std::vector<std::vector<float>>;

Arrays unwritten(const std::vector<Shape>& shapes) {
  Arrays arrays;
  for (const Shape& shape : shapes) {
    arrays.emplace_back(static_cast<std::size_t>(shape.elements()),
                        std::numeric_limits<float>::quiet_NaN());
  }
  return arrays;
}

std::vector<float*> pointers(Arrays& arrays) {
  std::vector<float*> all;
  for (auto& array : arrays) all.push_back(array.data());
  return all;
}

std::vector<std::byte*> byte_pointers(Arrays& arrays) {
  std::vector<std::byte*> all;
  for (auto& array : arrays) all.push_back(activations(array.data()));
  return all;
}

class SplitBackward {
 public:
  SplitBackward(Device& device, const LayerCase& c)
      : shapes_(infer_shapes(c.spec, c.inputs)),
        values_(make_values(c)),
        stream_(device.make_stream()),
        kernel_(device.make_kernel(c.spec, c.inputs, test::kLayerKey)),
        stash_(static_cast<std::size_t>(shapes_.stash_bytes)),
        output_(static_cast<std::size_t>(shapes_.output.elements())) {
    for (const auto& x : values_.inputs) inputs_.push_back(activations(x.data()));
    for (const auto& x : values_.parameters) parameters_.push_back(x.data());
    for (const ParameterShape& p : shapes_.parameters) parameter_shapes_.push_back(p.shape);
    const std::vector<float*> statistics = pointers(values_.statistics);
    ForwardArguments f;
    f.inputs = inputs_;
    f.parameters = parameters_;
    f.statistics = statistics;
    f.output = activations(output_.data());
    f.stash = stash_.data();
    f.samples = values_.samples;
    f.labels = values_.labels.data();
    kernel_->forward(*stream_, f);
  }

  void backward(std::span<std::byte* const> dinputs, std::span<float* const> dparameters) {
    BackwardArguments b;
    b.inputs = inputs_;
    b.output = activations(output_.data());
    b.output_gradient = activations(values_.output_gradient.data());
    b.parameters = parameters_;
    b.stash = stash_.data();
    b.input_gradients = dinputs;
    b.parameter_gradients = dparameters;
    b.samples = values_.samples;
    b.labels = values_.labels.data();
    b.loss_samples = test::kLossSamples;
    kernel_->backward(*stream_, b);
    stream_->synchronize();
  }

  const std::vector<Shape>& parameter_shapes() const { return parameter_shapes_; }

 private:
  LayerShapes shapes_;
  LayerValues values_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<LayerKernel> kernel_;
  std::vector<std::byte> stash_;
  std::vector<float> output_;
  std::vector<const std::byte*> inputs_;
  std::vector<const float*> parameters_;
  std::vector<Shape> parameter_shapes_;
};

TEST(SplitBackward, HalvesHaveTheBitsOfTheWhole) {
  const Shape image{3, 7, 6, 17};
  std::vector<LayerCase> cases{
      {Convolution{8, 3, 1, 1}, {image}},
      {Convolution{8, 3, 2, 1, false}, {image}},
      {Convolution{8, {1, 7}, 1, {0, 3}}, {image}},
      {Convolution{8, {3, 1}, 2, {1, 0}}, {image}},
      {Linear{9}, {{5, 33}}},
      {BatchNorm{}, {image}},
      {MaxPool{3, 2, 1}, {image}},
      {AveragePool{3, 1, 1, false}, {image}},
      {GlobalAveragePool{}, {image}},
      {Add{}, {image, image}},
      {Concat{}, {image, {3, 7, 6, 2}, {3, 7, 6, 40}}},
      {Shift{}, {image}},
      {Flatten{}, {image}},
      {Dropout{0.3f}, {image}},
      {AlphaDropout{0.3f}, {image}},
      {SoftmaxCrossEntropy{}, {{5, 10}}},
      {Convolution{.output_channels = 17, .padding = 1, .groups = 17}, {image}},
      {Convolution{.output_channels = 8, .stride = 2, .padding = 1, .groups = 4}, {{3, 7, 6, 16}}},
      {Convolution{.output_channels = 5, .padding = 2, .dilation = 2}, {image}},
      {TransposedConvolution{.output_channels = 6}, {image}},
      {TransposedConvolution{.output_channels = 6, .kernel = 3, .padding = 1}, {image}},
      {MaxPool{.kernel = 3, .ceil_mode = true}, {image}},
      {AdaptivePool{}, {image}},
      {AdaptivePool{true, 3, 2}, {image}},
      {Resize{Resize::Kind::bilinear, 14, 12, 0.5, 0.5}, {image}},
      {GroupNorm{17}, {image}},
      {GroupNorm{1, 1e-5f, false}, {image}},
      {RmsNorm{}, {{3, 5, 33}}},
      {LayerNorm{1e-5f, true, false}, {{3, 5, 33}}},
      {Recurrent{Recurrent::Kind::lstm, 9}, {{3, 5, 7}}},
      {Recurrent{Recurrent::Kind::gru, 9, true, true}, {{3, 5, 7}}},
      {RegressionLoss{}, {{3, 5, 7}}},
  };
  for (const LayerCase& c : test::elementwise_cases(image)) cases.push_back(c);
  for (const std::string name : {"reference", "cpu"}) {
    const auto device = make_device(name, 1);
    for (const LayerCase& c : cases) {
      SCOPED_TRACE(name + " " + to_string(c));
      SplitBackward layer(*device, c);
      Arrays dx = unwritten(c.inputs), dw = unwritten(layer.parameter_shapes());
      layer.backward(byte_pointers(dx), pointers(dw));
      Arrays first = unwritten(c.inputs), second = unwritten(layer.parameter_shapes());
      layer.backward(byte_pointers(first), {});
      layer.backward({}, pointers(second));
      EXPECT_EQ(first, dx);
      EXPECT_EQ(second, dw);
      for (std::size_t i = 0; i < c.inputs.size(); ++i) {
        Arrays one = unwritten(c.inputs);
        std::vector<std::byte*> wanted(c.inputs.size(), nullptr);
        wanted[i] = activations(one[i].data());
        layer.backward(wanted, std::vector<float*>(dw.size(), nullptr));
        EXPECT_EQ(one[i], dx[i]) << "input " << i;
      }
      for (std::size_t i = 0; i < dw.size(); ++i) {
        Arrays one = unwritten(layer.parameter_shapes());
        std::vector<float*> wanted(dw.size(), nullptr);
        wanted[i] = one[i].data();
        layer.backward(std::vector<std::byte*>(dx.size(), nullptr), wanted);
        EXPECT_EQ(one[i], dw[i]) << "parameter " << i;
      }
    }
  }
}

}  // namespace split_halves_test
}  // namespace hetpipe
