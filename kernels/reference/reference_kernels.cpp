// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/host_device.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/pooling.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {
namespace {

const float* bias_of(bool has_bias, std::span<const float* const> parameters) {
  return has_bias ? parameters[1] : nullptr;
}

// One kernel per layer type: the overload of forward and backward for its spec.
template <class Spec>
class Kernel final : public LayerKernel {
 public:
  Kernel(const Spec& spec, const Shape& in, std::uint64_t key) : spec_(spec), in_(in), key_(key) {}
  void forward(Stream&, const ForwardArguments& a) override { forward(spec_, a); }
  void backward(Stream&, const BackwardArguments& a) override { backward(spec_, a); }

 private:
  void forward(const Convolution& c, const ForwardArguments& a) {
    reference::convolution_forward(c, in_, floats(a.inputs[0]), a.parameters[0],
                                   bias_of(c.bias, a.parameters), floats(a.output));
  }
  void backward(const Convolution& c, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::convolution_input_gradient(c, in_, floats(a.output_gradient), a.parameters[0], dx);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      reference::convolution_weight_gradient(c, in_, floats(a.inputs[0]), floats(a.output_gradient),
                                             dweight);
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {
      const Shape out = window_of(c).output(in_, c.output_channels);
      reference::bias_gradient(out[0] * out[1] * out[2], out[3], floats(a.output_gradient), dbias);
    }
  }

  void forward(const Linear& l, const ForwardArguments& a) {
    reference::linear_forward(reference::sizes_of(l, in_), floats(a.inputs[0]), a.parameters[0],
                              bias_of(l.bias, a.parameters), floats(a.output));
  }
  void backward(const Linear& l, const BackwardArguments& a) {
    const reference::LinearSizes s = reference::sizes_of(l, in_);
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::linear_input_gradient(s, floats(a.output_gradient), a.parameters[0], dx);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      reference::linear_weight_gradient(s, floats(a.inputs[0]), floats(a.output_gradient), dweight);
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {
      reference::bias_gradient(s.batch, s.out, floats(a.output_gradient), dbias);
    }
  }

  std::int64_t channels() const { return in_[in_.rank() - 1]; }
  std::int64_t rows() const { return in_.elements() / channels(); }
  void forward(const BatchNorm& b, const ForwardArguments& a) {
    const float *mean = wanted(a.statistics, 0), *variance = wanted(a.statistics, 1);
    std::vector<float> own;
    if (a.mode == Mode::train || !b.tracked) {
      float* batch_mean = reinterpret_cast<float*>(a.stash);
      if (a.mode == Mode::evaluate) {
        own.resize(static_cast<std::size_t>(2 * channels()));
        batch_mean = own.data();
      }
      float* batch_variance = batch_mean + channels();
      reference::batch_statistics(rows(), channels(), floats(a.inputs[0]), batch_mean,
                                  batch_variance);
      if (a.update_statistics && b.tracked) {
        reference::update_running_statistics(rows(), channels(), b.momentum, batch_mean,
                                             batch_variance, a.statistics[0], a.statistics[1]);
      }
      mean = batch_mean;
      variance = batch_variance;
    }
    reference::batch_norm_forward(rows(), channels(), static_cast<double>(b.epsilon),
                                  floats(a.inputs[0]), mean, variance, wanted(a.parameters, 0),
                                  wanted(a.parameters, 1), floats(a.output));
  }
  void backward(const BatchNorm& b, const BackwardArguments& a) {
    const float* mean = reinterpret_cast<const float*>(a.stash);
    reference::batch_norm_backward(rows(), channels(), static_cast<double>(b.epsilon),
                                   floats(a.inputs[0]), mean, mean + channels(),
                                   wanted(a.parameters, 0), floats(a.output_gradient),
                                   wanted(a.input_gradients, 0), wanted(a.parameter_gradients, 0),
                                   wanted(a.parameter_gradients, 1));
  }

  template <Elementwise Layer>
  void forward(const Layer& layer, const ForwardArguments& a) {
    reference::elementwise_forward(layer, in_.elements(), floats(a.inputs[0]), floats(a.output));
  }
  template <Elementwise Layer>
  void backward(const Layer& layer, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      const std::byte* const read = read_by(row_of<Layer>().backward_reads, a);
      reference::elementwise_backward(layer, in_.elements(), floats(read),
                                      floats(a.output_gradient), dx);
    }
  }

  void forward(const MaxPool& p, const ForwardArguments& a) {
    std::uint8_t* winner =
        a.mode == Mode::train ? reinterpret_cast<std::uint8_t*>(a.stash) : nullptr;
    reference::max_pool_forward(window_of(p), in_, floats(a.inputs[0]), floats(a.output), winner);
  }
  void backward(const MaxPool& p, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::max_pool_backward(window_of(p), in_, floats(a.output_gradient),
                                   reinterpret_cast<const std::uint8_t*>(a.stash), dx);
    }
  }

  void forward(const AveragePool& p, const ForwardArguments& a) {
    reference::average_pool_forward(window_of(p), in_, p.count_padding, floats(a.inputs[0]),
                                    floats(a.output));
  }
  void backward(const AveragePool& p, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::average_pool_backward(window_of(p), in_, p.count_padding,
                                       floats(a.output_gradient), dx);
    }
  }

  void forward(const GlobalAveragePool&, const ForwardArguments& a) {
    reference::global_average_pool_forward(in_, floats(a.inputs[0]), floats(a.output));
  }
  void backward(const GlobalAveragePool&, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::global_average_pool_backward(in_, floats(a.output_gradient), dx);
    }
  }

  void forward(const Add&, const ForwardArguments& a) {
    reference::add_forward(in_.elements(), floats(a.inputs[0]), floats(a.inputs[1]),
                           floats(a.output));
  }
  void backward(const Add&, const BackwardArguments& a) {
    for (std::byte* const gradient : a.input_gradients) {
      float* const dx = floats(gradient);
      if (dx != nullptr) std::copy_n(floats(a.output_gradient), in_.elements(), dx);
    }
  }

  void forward(const Flatten&, const ForwardArguments& a) {
    reference::flatten_forward(in_, floats(a.inputs[0]), floats(a.output));
  }
  void backward(const Flatten&, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::flatten_backward(in_, floats(a.output_gradient), dx);
    }
  }

  void forward(const Dropout& d, const ForwardArguments& a) {
    if (a.mode == Mode::evaluate) {
      std::copy_n(floats(a.inputs[0]), in_.elements(), floats(a.output));
      return;
    }
    ensure(static_cast<std::int64_t>(a.samples.size()) == in_[0], "one sample key per sample");
    std::uint8_t* kept = reinterpret_cast<std::uint8_t*>(a.stash);
    reference::dropout_draw(key_, a.samples, in_.elements() / in_[0], d.rate, kept, d.draws);
    reference::dropout_apply(in_.elements(), kept, 1 / (1 - d.rate), floats(a.inputs[0]),
                             floats(a.output));
  }
  void backward(const Dropout& d, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::dropout_apply(in_.elements(), reinterpret_cast<const std::uint8_t*>(a.stash),
                               1 / (1 - d.rate), floats(a.output_gradient), dx);
    }
  }

  void forward(const AlphaDropout& d, const ForwardArguments& a) {
    if (a.mode == Mode::evaluate) {
      std::copy_n(floats(a.inputs[0]), in_.elements(), floats(a.output));
      return;
    }
    ensure(static_cast<std::int64_t>(a.samples.size()) == in_[0], "one sample key per sample");
    std::uint8_t* kept = reinterpret_cast<std::uint8_t*>(a.stash);
    reference::dropout_draw(key_, a.samples, in_.elements() / in_[0], d.rate, kept);
    reference::alpha_dropout_forward(in_.elements(), kept,
                                     AlphaDropoutMap(static_cast<double>(d.rate)),
                                     floats(a.inputs[0]), floats(a.output));
  }
  void backward(const AlphaDropout& d, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      const AlphaDropoutMap map(static_cast<double>(d.rate));
      reference::dropout_apply(in_.elements(), reinterpret_cast<const std::uint8_t*>(a.stash),
                               static_cast<float>(map.scale), floats(a.output_gradient), dx);
    }
  }

  void forward(const Shift& s, const ForwardArguments& a) {
    reference::shift(in_, s.rows, s.columns, floats(a.inputs[0]), floats(a.output));
  }
  void backward(const Shift& s, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::shift(in_, -s.rows, -s.columns, floats(a.output_gradient), dx);
    }
  }

  Spec spec_;
  Shape in_;
  std::uint64_t key_;
};

class ConcatKernel final : public LayerKernel {
 public:
  explicit ConcatKernel(const std::vector<Shape>& inputs) {
    for (const Shape& in : inputs) {
      channels_.push_back(in[in.rank() - 1]);
      all_ += channels_.back();
    }
    rows_ = inputs[0].elements() / channels_[0];
  }
  void forward(Stream&, const ForwardArguments& a) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < channels_.size(); first += channels_[i++]) {
      reference::concat_forward(rows_, channels_[i], first, all_, floats(a.inputs[i]),
                                floats(a.output));
    }
  }
  void backward(Stream&, const BackwardArguments& a) override {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < channels_.size(); first += channels_[i++]) {
      if (float* dx = wanted(a.input_gradients, i)) {
        reference::concat_backward(rows_, channels_[i], first, all_, floats(a.output_gradient), dx);
      }
    }
  }

 private:
  std::vector<std::int64_t> channels_;
  std::int64_t rows_ = 0, all_ = 0;
};

}  // namespace

std::unique_ptr<LayerKernel> make_reference_kernel(const LayerSpec& spec,
                                                   const std::vector<Shape>& inputs,
                                                   std::uint64_t key) {
  infer_shapes(spec, inputs);  // refuses what does not fit together
  return std::visit(
      [&](const auto& layer) -> std::unique_ptr<LayerKernel> {
        using Spec = std::decay_t<decltype(layer)>;
        if constexpr (std::is_same_v<Spec, JointLoss>) {
          ensure(false, "a joint loss is made of its device's own");
          return nullptr;
        } else if constexpr (std::is_same_v<Spec, Concat>) {
          return std::make_unique<ConcatKernel>(inputs);
        } else if constexpr (requires { make_sequence_kernel(layer, inputs[0]); }) {
          return make_sequence_kernel(layer, inputs[0]);
        } else if constexpr (AlgebraLayer<Spec>) {
          return make_algebra_kernel(spec, inputs, key);
        } else if constexpr (requires { make_image_kernel(layer, inputs[0]); }) {
          return make_image_kernel(layer, inputs[0]);
        } else {
          return std::make_unique<Kernel<Spec>>(layer, inputs[0], key);
        }
      },
      spec);
}

}  // namespace hetpipe
