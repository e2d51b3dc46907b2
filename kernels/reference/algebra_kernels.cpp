// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_device.h"
#include "kernels/pointwise_layer.h"
#include "kernels/reference/algebra.h"
#include "kernels/reference/algebra_attention.h"
#include "kernels/reference/algebra_sums.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {
namespace {

// One kernel per layer type: the overload of forward and backward for its spec.
template <class Spec>
class AlgebraReference final : public LayerKernel {
 public:
  AlgebraReference(const Spec& spec, const std::vector<Shape>& inputs, std::uint64_t key)
      : spec_(spec), inputs_(inputs), key_(key) {
    tensors_.samples = inputs[0][0];
    for (const Shape& in : inputs) tensors_.input_elements.push_back(in.elements() / in[0]);
    for (const ParameterShape& p : infer_shapes(spec, inputs).parameters) {
      tensors_.parameter_elements.push_back(p.shape.elements());
    }
    if constexpr (std::is_same_v<Spec, Pointwise>) spec_ = merged(spec);
    if constexpr (requires { spec_.constants; }) tensors_.constants = spec_.constants;
  }
  void forward(Stream&, const ForwardArguments& a) override {
    read(a);
    forward(spec_, a);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    read(a);
    std::vector<float*> inputs, parameters;
    for (std::size_t i = 0; i < inputs_.size(); ++i) inputs.push_back(wanted(a.input_gradients, i));
    for (std::size_t i = 0; i < tensors_.parameter_elements.size(); ++i) {
      parameters.push_back(wanted(a.parameter_gradients, i));
    }
    reference::Gradients<float> gradients(tensors_, inputs, parameters);
    backward(spec_, a, gradients);
    gradients.store();
  }

 private:
  using Gradients = reference::Gradients<float>;

  template <class Arguments>
  void read(const Arguments& a) {
    tensors_.inputs.clear();
    for (const std::byte* in : a.inputs) tensors_.inputs.push_back(floats(in));
    tensors_.inputs.resize(inputs_.size(), nullptr);
    tensors_.parameters.assign(a.parameters.begin(), a.parameters.end());
  }

  void forward(const Pointwise& p, const ForwardArguments& a) {
    reference::pointwise_forward(p, tensors_, floats(a.output));
  }
  void backward(const Pointwise& p, const BackwardArguments& a, Gradients& gradients) {
    reference::pointwise_backward(p, gradient_of(p), tensors_, floats(a.output),
                                  floats(a.output_gradient), gradients);
  }

  void forward(const Move& m, const ForwardArguments& a) {
    reference::move_forward(m, tensors_, floats(a.output));
  }
  void backward(const Move& m, const BackwardArguments& a, Gradients& gradients) {
    reference::move_backward(m, tensors_, floats(a.output_gradient), gradients);
  }

  void forward(const Reduce& r, const ForwardArguments& a) {
    reference::reduce_forward(r, tensors_, floats(a.output));
  }
  void backward(const Reduce& r, const BackwardArguments& a, Gradients& gradients) {
    reference::reduce_backward(r, tensors_, floats(a.output_gradient), gradients);
  }

  void forward(const Product& p, const ForwardArguments& a) {
    reference::product_forward(p, tensors_, floats(a.output));
  }
  void backward(const Product& p, const BackwardArguments& a, Gradients& gradients) {
    reference::product_backward(p, tensors_, floats(a.output_gradient), gradients);
  }

  std::int64_t features() const { return inputs_[0][inputs_[0].rank() - 1]; }
  void forward(const Softmax& s, const ForwardArguments& a) {
    reference::softmax_forward(s, inputs_[0].elements() / features(), features(),
                               floats(a.inputs[0]), floats(a.output));
  }
  void backward(const Softmax& s, const BackwardArguments& a, Gradients& gradients) {
    std::vector<float> dx(static_cast<std::size_t>(inputs_[0].elements()));
    reference::softmax_backward(s, inputs_[0].elements() / features(), features(), floats(a.output),
                                floats(a.output_gradient), dx.data());
    add_all(dx, gradients);
  }

  void forward(const CumulativeSum&, const ForwardArguments& a) {
    reference::cumulative_sum(reference::CumulativeSizes(inputs_[0]), false, floats(a.inputs[0]),
                              floats(a.output));
  }
  void backward(const CumulativeSum&, const BackwardArguments& a, Gradients& gradients) {
    std::vector<float> dx(static_cast<std::size_t>(inputs_[0].elements()));
    reference::cumulative_sum(reference::CumulativeSizes(inputs_[0]), true,
                              floats(a.output_gradient), dx.data());
    add_all(dx, gradients);
  }
  // A gradient that is computed at once.
  void add_all(const std::vector<float>& dx, Gradients& gradients) const {
    const std::int64_t elements = tensors_.input_elements[0];
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(dx.size()); ++i) {
      gradients.add({}, i / elements, i % elements,
                    static_cast<double>(dx[static_cast<std::size_t>(i)]));
    }
  }

  std::int64_t weights(const Attention& l) const {
    return tensors_.samples * l.heads * l.queries * l.keys;
  }
  void forward(const Attention& l, const ForwardArguments& a) {
    const bool train = a.mode == Mode::train;
    std::vector<float> own(static_cast<std::size_t>(train ? 0 : weights(l)));
    float* const softmax = train ? reinterpret_cast<float*>(a.stash) : own.data();
    std::uint8_t* kept = nullptr;
    if (train && l.dropout > 0) {
      ensure(static_cast<std::int64_t>(a.samples.size()) == tensors_.samples,
             "one sample key per sample");
      kept = reinterpret_cast<std::uint8_t*>(softmax + weights(l));
      reference::dropout_draw(key_, a.samples, weights(l) / tensors_.samples, l.dropout, kept);
    }
    reference::attention_forward(l, tensors_, kept, softmax, floats(a.output));
  }
  void backward(const Attention& l, const BackwardArguments& a, Gradients& gradients) {
    const float* const softmax = reinterpret_cast<const float*>(a.stash);
    const std::uint8_t* const kept =
        l.dropout > 0 ? reinterpret_cast<const std::uint8_t*>(softmax + weights(l)) : nullptr;
    reference::attention_backward(l, tensors_, kept, softmax, floats(a.output_gradient), gradients);
  }

  Spec spec_;
  std::vector<Shape> inputs_;
  std::uint64_t key_;
  reference::Tensors<float> tensors_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_algebra_kernel(const LayerSpec& spec,
                                                 const std::vector<Shape>& inputs,
                                                 std::uint64_t key) {
  return std::visit(
      [&](const auto& layer) -> std::unique_ptr<LayerKernel> {
        using Spec = std::decay_t<decltype(layer)>;
        if constexpr (AlgebraLayer<Spec>) {
          return std::make_unique<AlgebraReference<Spec>>(layer, inputs, key);
        } else {
          ensure(false, "a layer of the algebra");
          return nullptr;
        }
      },
      spec);
}

}  // namespace hetpipe
