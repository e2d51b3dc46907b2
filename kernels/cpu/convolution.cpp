// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/window.h"

namespace hetpipe {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

// Activations NHWC, weights in whatever layout oneDNN likes best for each direction; they are
// reordered from and to OIHW in every call, because every call may bring another version of them.
class ConvolutionKernel final : public LayerKernel {
 public:
  ConvolutionKernel(CpuContext& context, const Convolution& spec, const Shape& in)
      : context_(context),
        spec_(spec),
        x_(nhwc(in)),
        y_(nhwc(window_of(spec).output(in, spec.output_channels))),
        weight_(
            plain({spec.output_channels, in[3], spec.kernel.rows, spec.kernel.columns}, tag::oihw)),
        any_weight_(
            plain({spec.output_channels, in[3], spec.kernel.rows, spec.kernel.columns}, tag::any)),
        bias_(spec.bias ? plain({spec.output_channels}, tag::x) : memory::desc()),
        forward_description_(
            {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x_,
             any_weight_, bias_, y_, strides(), padding(), padding()},
            attributes(), context.engine) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    if (!forward_) forward_ = make_forward();
    Buffer storage;
    Arguments arguments = {
        {DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
        {DNNL_ARG_WEIGHTS, reordered_weight(stream, *forward_, a.parameters[0], storage)},
        {DNNL_ARG_DST, view(context_, y_, floats(a.output))}};
    if (spec_.bias) arguments.emplace(DNNL_ARG_BIAS, view(context_, bias_, a.parameters[1]));
    forward_->primitive.run(context_, stream, std::move(arguments));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const memory dy = view(context_, y_, floats(a.output_gradient));
    if (float* dx = wanted(a.input_gradients, 0)) input_gradient(stream, a, dy, dx);
    float* dweight = wanted(a.parameter_gradients, 0);
    float* dbias = wanted(a.parameter_gradients, 1);
    if (dbias != nullptr) {
      const memory::dims out = y_.dims();  // (N, C, H, W)
      sum_bias_gradient(context_.threads, out[0] * out[2] * out[3], out[1],
                        floats(a.output_gradient), dbias);
    }
    if (dweight != nullptr) weight_gradient(stream, a, dy, dweight);
  }

 private:
  // One direction: its primitive, its layout of the weights, and the way between that and OIHW.
  struct Direction {
    Primitive primitive;
    memory::desc weight;
    Reorder reorder;
  };

  memory::dims strides() const { return {spec_.stride, spec_.stride}; }
  memory::dims padding() const { return {spec_.padding.rows, spec_.padding.columns}; }

  Direction make_forward() const {
    const memory::desc weight = forward_description_.weights_desc();
    return {Primitive(forward_description_), weight, Reorder(context_, weight_, weight)};
  }
  // At stride 1 the input gradient is a forward convolution of the output gradient with the weights
  // turned round, and oneDNN's forward is up to a third faster than its input gradient.
  bool turned() const {
    return spec_.stride == 1 && spec_.padding.rows < spec_.kernel.rows &&
           spec_.padding.columns < spec_.kernel.columns;
  }
  memory::desc turned_weight(tag layout) const {
    const memory::dims dims = weight_.dims();
    return plain({dims[1], dims[0], dims[2], dims[3]}, layout);
  }
  Direction make_input_gradient() const {
    if (turned()) {
      const memory::dims rest = {spec_.kernel.rows - 1 - spec_.padding.rows,
                                 spec_.kernel.columns - 1 - spec_.padding.columns};
      const dnnl::convolution_forward::primitive_desc description(
          {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, y_,
           turned_weight(tag::any), x_, strides(), rest, rest},
          attributes(), context_.engine);
      const memory::desc weight = description.weights_desc();
      return {Primitive(description), weight, Reorder(context_, turned_weight(tag::oihw), weight)};
    }
    const dnnl::convolution_backward_data::primitive_desc description(
        {dnnl::algorithm::convolution_direct, x_, any_weight_, y_, strides(), padding(), padding()},
        attributes(), context_.engine, forward_description_);
    const memory::desc weight = description.weights_desc();
    return {Primitive(description), weight, Reorder(context_, weight_, weight)};
  }
  Direction make_weight_gradient() const {
    const dnnl::convolution_backward_weights::primitive_desc description(
        {dnnl::algorithm::convolution_direct, x_, any_weight_, memory::desc(), y_, strides(),
         padding(), padding()},
        attributes(), context_.engine, forward_description_);
    const memory::desc weight = description.diff_weights_desc();
    return {Primitive(description), weight, Reorder(context_, weight, weight_)};
  }

  memory reordered_weight(Stream& stream, const Direction& direction, const float* weight,
                          Buffer& storage) {
    return reordered(stream, direction, view(context_, weight_, weight), storage);
  }
  // `from` in the direction's layout; `storage` keeps the copy alive where one is needed.
  memory reordered(Stream& stream, const Direction& direction, const memory& from,
                   Buffer& storage) {
    if (!direction.reorder.needed()) return from;
    storage = Buffer(context_.device, stream, direction.weight.get_size(), MemoryKind::workspace);
    memory to = view(context_, direction.weight, storage.data());
    direction.reorder.run(context_, stream, from, to);
    return to;
  }

  void input_gradient(Stream& stream, const BackwardArguments& a, const memory& dy, float* dx) {
    if (!input_gradient_) input_gradient_ = make_input_gradient();
    Buffer storage, turned_storage;
    if (turned()) {
      turned_storage = Buffer(context_.device, stream, weight_.get_size(), MemoryKind::workspace);
      const memory::dims dims = weight_.dims();
      loops::turn_round(turned_storage.as<float>(), a.parameters[0], dims[0], dims[1],
                        dims[2] * dims[3]);
      input_gradient_->primitive.run(
          context_, stream,
          {{DNNL_ARG_SRC, dy},
           {DNNL_ARG_WEIGHTS,
            reordered(stream, *input_gradient_,
                      view(context_, turned_weight(tag::oihw), turned_storage.data()), storage)},
           {DNNL_ARG_DST, view(context_, x_, dx)}});
      return;
    }
    input_gradient_->primitive.run(
        context_, stream,
        {{DNNL_ARG_DIFF_DST, dy},
         {DNNL_ARG_WEIGHTS, reordered_weight(stream, *input_gradient_, a.parameters[0], storage)},
         {DNNL_ARG_DIFF_SRC, view(context_, x_, dx)}});
  }

  // The bias is ours: oneDNN would sum it in fp32.
  void weight_gradient(Stream& stream, const BackwardArguments& a, const memory& dy,
                       float* dweight) {
    if (!weight_gradient_) weight_gradient_ = make_weight_gradient();
    const Direction& direction = *weight_gradient_;
    const bool copy = direction.reorder.needed();
    const Buffer storage(context_.device, stream, copy ? direction.weight.get_size() : 0,
                         MemoryKind::workspace);
    const memory gradient =
        view(context_, direction.weight, copy ? static_cast<const void*>(storage.data()) : dweight);
    direction.primitive.run(context_, stream,
                            {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                             {DNNL_ARG_DIFF_DST, dy},
                             {DNNL_ARG_DIFF_WEIGHTS, gradient}});
    if (!copy) return;
    memory target = view(context_, weight_, dweight);
    direction.reorder.run(context_, stream, gradient, target);
  }

  CpuContext& context_;
  Convolution spec_;
  memory::desc x_, y_, weight_, any_weight_, bias_;
  dnnl::convolution_forward::primitive_desc forward_description_;
  // Made when first used: a first layer needs no input gradient, evaluation no gradients at all.
  std::optional<Direction> forward_, input_gradient_, weight_gradient_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_convolution(CpuContext& context, const Convolution& spec,
                                              const Shape& in) {
  return std::make_unique<ConvolutionKernel>(context, spec, in);
}

}  // namespace hetpipe
