// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "kernels/host_device.h"
#include "kernels/reference/adaptive_pool.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/group_norm.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/recurrent.h"
#include "kernels/reference/reference_device.h"
#include "kernels/reference/regression_loss.h"
#include "kernels/reference/resize.h"

namespace hetpipe {
namespace {

// One kernel per layer type: the overload of forward and backward for its spec.
template <class Spec>
class ImageKernel final : public LayerKernel {
 public:
  ImageKernel(const Spec& spec, const Shape& in) : spec_(spec), in_(in) {}
  void forward(Stream&, const ForwardArguments& a) override { forward(spec_, a); }
  void backward(Stream&, const BackwardArguments& a) override { backward(spec_, a); }

 private:
  std::int64_t features() const { return in_[in_.rank() - 1]; }
  std::int64_t rows() const { return in_.elements() / features(); }
  std::int64_t sample() const { return in_.elements() / in_[0]; }

  void forward(const TransposedConvolution& c, const ForwardArguments& a) {
    reference::transposed_convolution_forward(c, in_, floats(a.inputs[0]), a.parameters[0],
                                              c.bias ? a.parameters[1] : nullptr, floats(a.output));
  }
  void backward(const TransposedConvolution& c, const BackwardArguments& a) {
    const float* dy = floats(a.output_gradient);
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::transposed_convolution_input_gradient(c, in_, dy, a.parameters[0], dx);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      reference::transposed_convolution_weight_gradient(c, in_, floats(a.inputs[0]), dy, dweight);
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {
      const Shape out = transposed_output(c, in_);
      reference::bias_gradient(out[0] * out[1] * out[2], out[3], dy, dbias);
    }
  }

  void forward(const Resize& r, const ForwardArguments& a) {
    reference::resize_forward(r, in_, floats(a.inputs[0]), floats(a.output));
  }
  void backward(const Resize& r, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::resize_backward(r, in_, floats(a.output_gradient), dx);
    }
  }

  void forward(const AdaptivePool& p, const ForwardArguments& a) {
    if (p.maximum) {
      auto* winner = a.mode == Mode::train ? reinterpret_cast<std::int32_t*>(a.stash) : nullptr;
      reference::adaptive_max_forward(p, in_, floats(a.inputs[0]), floats(a.output), winner);
    } else {
      reference::adaptive_average_forward(p, in_, floats(a.inputs[0]), floats(a.output));
    }
  }
  void backward(const AdaptivePool& p, const BackwardArguments& a) {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    if (p.maximum) {
      reference::adaptive_max_backward(p, in_, floats(a.output_gradient),
                                       reinterpret_cast<const std::int32_t*>(a.stash), dx);
    } else {
      reference::adaptive_average_backward(p, in_, floats(a.output_gradient), dx);
    }
  }

  reference::GroupNormSizes group_sizes(int groups) const {
    return {in_[0], sample() / features(), features(), groups};
  }
  void forward(const GroupNorm& g, const ForwardArguments& a) {
    std::vector<float> own(a.mode == Mode::train ? 0
                                                 : static_cast<std::size_t>(2 * in_[0] * g.groups));
    float* mean = a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : own.data();
    reference::group_norm_forward(group_sizes(g.groups), static_cast<double>(g.epsilon),
                                  floats(a.inputs[0]), wanted(a.parameters, 0),
                                  wanted(a.parameters, 1), floats(a.output), mean,
                                  mean + in_[0] * g.groups);
  }
  void backward(const GroupNorm& g, const BackwardArguments& a) {
    const float* mean = reinterpret_cast<const float*>(a.stash);
    reference::group_norm_backward(group_sizes(g.groups), static_cast<double>(g.epsilon),
                                   floats(a.inputs[0]), mean, mean + in_[0] * g.groups,
                                   wanted(a.parameters, 0), floats(a.output_gradient),
                                   wanted(a.input_gradients, 0), wanted(a.parameter_gradients, 0),
                                   wanted(a.parameter_gradients, 1));
  }

  void forward(const RmsNorm& n, const ForwardArguments& a) {
    float* kept = a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : nullptr;
    for (std::int64_t r = 0; r < rows(); ++r) {
      const float square =
          reference::rms_norm_row(features(), static_cast<double>(n.epsilon), n.one_plus,
                                  floats(a.inputs[0]) + r * features(), wanted(a.parameters, 0),
                                  floats(a.output) + r * features());
      if (kept != nullptr) kept[r] = square;
    }
  }
  void backward(const RmsNorm& n, const BackwardArguments& a) {
    const float* square = reinterpret_cast<const float*>(a.stash);
    const double epsilon = static_cast<double>(n.epsilon);
    const float *x = floats(a.inputs[0]), *dy = floats(a.output_gradient);
    if (float* dscale = wanted(a.parameter_gradients, 0)) {
      reference::rms_norm_scale_gradient(rows(), features(), epsilon, x, square, dy, dscale);
    }
    float* dx = wanted(a.input_gradients, 0);
    for (std::int64_t r = 0; dx != nullptr && r < rows(); ++r) {
      reference::rms_norm_row_gradient(features(), epsilon, n.one_plus, x + r * features(),
                                       square[r], wanted(a.parameters, 0), dy + r * features(),
                                       dx + r * features());
    }
  }

  void forward(const Recurrent& r, const ForwardArguments& a) {
    const reference::RecurrentSizes s(r, in_);
    std::vector<float> own;
    float* gates = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      own.resize(static_cast<std::size_t>(s.rows() * (s.gates() + s.hidden)));
      gates = own.data();
    }
    reference::recurrent_forward(s, floats(a.inputs[0]), a.parameters[0], a.parameters[1],
                                 wanted(a.parameters, 2), wanted(a.parameters, 3), gates,
                                 gates + s.rows() * s.gates(), floats(a.output));
  }
  void backward(const Recurrent& r, const BackwardArguments& a) {
    const reference::RecurrentSizes s(r, in_);
    const float* gates = reinterpret_cast<const float*>(a.stash);
    const auto count = static_cast<std::size_t>(s.rows() * s.gates());
    std::vector<float> da(count), db(count);
    reference::recurrent_gate_gradients(s, a.parameters[1], gates, gates + s.rows() * s.gates(),
                                        floats(a.output), floats(a.output_gradient), da.data(),
                                        db.data());
    // weight_ih lies as (out, in).
    const reference::LinearSizes input{s.rows(), s.in, s.gates(), true};
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::linear_input_gradient(input, da.data(), a.parameters[0], dx);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      reference::linear_weight_gradient(input, floats(a.inputs[0]), da.data(), dweight);
    }
    if (float* dweight = wanted(a.parameter_gradients, 1)) {
      reference::recurrent_hidden_gradient(s, floats(a.output), db.data(), dweight);
    }
    if (float* dbias = wanted(a.parameter_gradients, 2)) {
      reference::bias_gradient(s.rows(), s.gates(), da.data(), dbias);
    }
    if (float* dbias = wanted(a.parameter_gradients, 3)) {
      reference::bias_gradient(s.rows(), s.gates(), db.data(), dbias);
    }
  }

  void forward(const RegressionLoss& l, const ForwardArguments& a) {
    const float* targets = reinterpret_cast<const float*>(a.labels);
    for (std::int64_t n = 0; n < in_[0]; ++n) {
      floats(a.output)[n] = reference::regression_loss_mean(
          l, sample(), floats(a.inputs[0]) + n * sample(), targets + n * sample());
    }
    if (a.correct != nullptr) std::fill_n(a.correct, in_[0], 0);
  }
  void backward(const RegressionLoss& l, const BackwardArguments& a) {
    float* dx = wanted(a.input_gradients, 0);
    const float* targets = reinterpret_cast<const float*>(a.labels);
    for (std::int64_t n = 0; dx != nullptr && n < in_[0]; ++n) {
      reference::regression_loss_backward(l, sample(), floats(a.inputs[0]) + n * sample(),
                                          targets + n * sample(), a.loss_samples, dx + n * sample(),
                                          a.loss_scale);
    }
  }

  void forward(const OutputLoss&, const ForwardArguments& a) {
    std::copy_n(floats(a.inputs[0]), in_[0], floats(a.output));
    if (a.correct != nullptr) std::fill_n(a.correct, in_[0], 0);
  }
  void backward(const OutputLoss&, const BackwardArguments& a) {
    ensure(a.loss_samples > 0, "the loss is a mean over no samples");
    if (float* dx = wanted(a.input_gradients, 0)) {
      std::fill_n(dx, in_[0], 1 / static_cast<float>(a.loss_samples) * a.loss_scale);
    }
  }

  Spec spec_;
  Shape in_;
};

template <class Spec>
std::unique_ptr<LayerKernel> image_kernel(const Spec& spec, const Shape& in) {
  return std::make_unique<ImageKernel<Spec>>(spec, in);
}

}  // namespace

std::unique_ptr<LayerKernel> make_image_kernel(const TransposedConvolution& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const Resize& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const AdaptivePool& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const GroupNorm& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const RmsNorm& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const Recurrent& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const RegressionLoss& spec, const Shape& in) {
  return image_kernel(spec, in);
}
std::unique_ptr<LayerKernel> make_image_kernel(const OutputLoss& spec, const Shape& in) {
  return image_kernel(spec, in);
}

}  // namespace hetpipe
