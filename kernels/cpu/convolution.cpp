// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/convolution.h"
#include "base/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/cpu/threads.h"
#include "kernels/window.h"

namespace hetpipe {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

// Activations NHWC, weights in whatever layout oneDNN likes best for each direction; they are
// reordered from and to OIHW in every call, because every call may bring another version of them.
class ConvolutionPasses {
 public:
  ConvolutionPasses(CpuContext& context, const Convolution& spec, const Shape& in)
      : context_(context),
        groups_(spec.groups),
        window_(window_of(spec)),
        x_(nhwc(in)),
        y_(nhwc(window_.output(in, spec.output_channels))),
        outputs_(spec.output_channels / spec.groups),
        inputs_(in[3] / spec.groups),
        weight_(weight_desc(false, false)),
        any_weight_(weight_desc(false, true)),
        bias_(spec.bias ? plain({spec.output_channels}, tag::x) : memory::desc()),
        forward_description_(
            {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x_,
             any_weight_, bias_, y_, strides(), dilation(), padding(), padding_end()},
            attributes(), context.engine) {}

  // bias may be null.
  void forward(Stream& stream, const float* x, const float* weight, const float* bias, float* y) {
    if (!forward_) forward_ = make_forward();
    Buffer storage;
    Arguments arguments = {{DNNL_ARG_SRC, view(context_, x_, x)},
                           {DNNL_ARG_WEIGHTS, reordered_weight(stream, *forward_, weight, storage)},
                           {DNNL_ARG_DST, view(context_, y_, y)}};
    if (bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, view(context_, bias_, bias));
    forward_->primitive.run(context_, stream, std::move(arguments));
  }

  void input_gradient(Stream& stream, const float* gradient, const float* weight, float* dx) {
    const memory dy = view(context_, y_, gradient);
    if (!input_gradient_) input_gradient_ = make_input_gradient();
    Buffer storage, turned_storage;
    if (turned()) {
      turned_storage = Buffer(context_.device, stream, weight_.get_size(), MemoryKind::workspace);
      turn_weights(turned_storage.as<float>(), weight);
      input_gradient_->primitive.run(
          context_, stream,
          {{DNNL_ARG_SRC, dy},
           {DNNL_ARG_WEIGHTS,
            reordered(stream, *input_gradient_,
                      view(context_, weight_desc(true, false), turned_storage.data()), storage)},
           {DNNL_ARG_DST, view(context_, x_, dx)}});
      return;
    }
    input_gradient_->primitive.run(
        context_, stream,
        {{DNNL_ARG_DIFF_DST, dy},
         {DNNL_ARG_WEIGHTS, reordered_weight(stream, *input_gradient_, weight, storage)},
         {DNNL_ARG_DIFF_SRC, view(context_, x_, dx)}});
  }

  void weight_gradient(Stream& stream, const float* x, const float* gradient_of_y, float* dweight) {
    const memory dy = view(context_, y_, gradient_of_y);
    if (!weight_gradient_) weight_gradient_ = make_weight_gradient();
    const Direction& direction = *weight_gradient_;
    const bool copy = direction.reorder.needed();
    const Buffer storage(context_.device, stream, copy ? direction.weight.get_size() : 0,
                         MemoryKind::workspace);
    const memory gradient =
        view(context_, direction.weight, copy ? static_cast<const void*>(storage.data()) : dweight);
    direction.primitive.run(context_, stream,
                            {{DNNL_ARG_SRC, view(context_, x_, x)},
                             {DNNL_ARG_DIFF_DST, dy},
                             {DNNL_ARG_DIFF_WEIGHTS, gradient}});
    if (!copy) return;
    memory target = view(context_, weight_, dweight);
    direction.reorder.run(context_, stream, gradient, target);
  }

 private:
  void turn_weights(float* to, const float* from) const {
    constexpr std::int64_t kInputs = 16;  // of one piece of work
    const std::int64_t taps = window_.taps(), group = outputs_ * inputs_ * taps;
    const std::int64_t pieces = (inputs_ + kInputs - 1) / kInputs;
    parallel_for(context_.threads, groups_ * pieces, [&](std::int64_t piece) {
      const std::int64_t g = piece / pieces, first = piece % pieces * kInputs;
      loops::turn_round(to + g * group, from + g * group, outputs_, inputs_, taps, first,
                        std::min(inputs_, first + kInputs));
    });
  }

  // One direction: its primitive, its layout of the weights, and the way between that and OIHW.
  struct Direction {
    Primitive primitive;
    memory::desc weight;
    Reorder reorder;
  };

  memory::dims strides() const { return {window_.rows.stride, window_.columns.stride}; }
  memory::dims padding() const { return {window_.rows.padding, window_.columns.padding}; }
  memory::dims padding_end() const {
    return {window_.rows.padding_end, window_.columns.padding_end};
  }
  // oneDNN counts the places left out between taps.
  memory::dims dilation() const {
    return {window_.rows.dilation - 1, window_.columns.dilation - 1};
  }
  // (O, I, KH, KW) or (G, O/G, I/G, KH, KW); turned: O and I change places. In the layout of the
  // parameters, or in any.
  memory::desc weight_desc(bool turned, bool any) const {
    const std::int64_t outputs = turned ? inputs_ : outputs_, inputs = turned ? outputs_ : inputs_;
    const std::int64_t rows = window_.rows.kernel, columns = window_.columns.kernel;
    return groups_ == 1
               ? plain({outputs, inputs, rows, columns}, any ? tag::any : tag::oihw)
               : plain({groups_, outputs, inputs, rows, columns}, any ? tag::any : tag::goihw);
  }

  Direction make_forward() const {
    const memory::desc best = forward_description_.weights_desc();
    return {Primitive(forward_description_), best, Reorder(context_, weight_, best)};
  }
  // At stride 1 the input gradient is a forward convolution of the output gradient with the weights
  // turned round, and oneDNN's forward is up to a third faster than its input gradient.
  bool turned() const {
    for (const WindowSide& side : {window_.rows, window_.columns}) {
      if (side.stride != 1 || side.padding >= side.span() || side.padding_end >= side.span()) {
        return false;
      }
    }
    return true;
  }
  Direction make_input_gradient() const {
    if (turned()) {
      const WindowSide &rows = window_.rows, &columns = window_.columns;
      const memory::dims before = {rows.span() - 1 - rows.padding,
                                   columns.span() - 1 - columns.padding};
      const memory::dims behind = {rows.span() - 1 - rows.padding_end,
                                   columns.span() - 1 - columns.padding_end};
      const dnnl::convolution_forward::primitive_desc description(
          {dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, y_,
           weight_desc(true, true), x_, strides(), dilation(), before, behind},
          attributes(), context_.engine);
      const memory::desc best = description.weights_desc();
      return {Primitive(description), best, Reorder(context_, weight_desc(true, false), best)};
    }
    const dnnl::convolution_backward_data::primitive_desc description(
        {dnnl::algorithm::convolution_direct, x_, any_weight_, y_, strides(), dilation(), padding(),
         padding_end()},
        attributes(), context_.engine, forward_description_);
    const memory::desc best = description.weights_desc();
    return {Primitive(description), best, Reorder(context_, weight_, best)};
  }
  Direction make_weight_gradient() const {
    const dnnl::convolution_backward_weights::primitive_desc description(
        {dnnl::algorithm::convolution_direct, x_, any_weight_, memory::desc(), y_, strides(),
         dilation(), padding(), padding_end()},
        attributes(), context_.engine, forward_description_);
    const memory::desc best = description.diff_weights_desc();
    return {Primitive(description), best, Reorder(context_, best, weight_)};
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

  CpuContext& context_;
  std::int64_t groups_;
  Window window_;
  memory::desc x_, y_;
  std::int64_t outputs_, inputs_;  // channels of a group
  memory::desc weight_, any_weight_, bias_;
  dnnl::convolution_forward::primitive_desc forward_description_;
  // Made when first used: a first layer needs no input gradient, evaluation no gradients at all.
  std::optional<Direction> forward_, input_gradient_, weight_gradient_;
};

class ConvolutionKernel final : public LayerKernel {
 public:
  ConvolutionKernel(CpuContext& context, const Convolution& spec, const Shape& in)
      : context_(context),
        passes_(context, spec, in),
        bias_(spec.bias),
        out_(window_of(spec).output(in, spec.output_channels)) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    passes_.forward(stream, floats(a.inputs[0]), a.parameters[0], bias_ ? a.parameters[1] : nullptr,
                    floats(a.output));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const dy = floats(a.output_gradient);
    if (float* dx = wanted(a.input_gradients, 0)) {
      passes_.input_gradient(stream, dy, a.parameters[0], dx);
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {  // oneDNN would sum it in fp32
      sum_bias_gradient(context_.threads, out_.elements() / out_[3], out_[3], dy, dbias);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      passes_.weight_gradient(stream, floats(a.inputs[0]), dy, dweight);
    }
  }

 private:
  CpuContext& context_;
  ConvolutionPasses passes_;
  bool bias_;
  Shape out_;
};

// The passes of the convolution whose input gradient this is.
class TransposedConvolutionKernel final : public LayerKernel {
 public:
  TransposedConvolutionKernel(CpuContext& context, const TransposedConvolution& spec,
                              const Convolution& gradient, const Shape& in, const Shape& out)
      : context_(context), passes_(context, gradient, out), bias_(spec.bias), in_(in), out_(out) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    float* const y = floats(a.output);
    passes_.input_gradient(stream, floats(a.inputs[0]), a.parameters[0], y);
    if (!bias_) return;
    for_each_piece_of_rows(context_.threads, out_.elements() / out_[3], out_[3],
                           [&](std::int64_t first, std::int64_t count) {
                             loops::add_to_rows(y + first * out_[3], a.parameters[1], count,
                                                out_[3]);
                           });
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const dy = floats(a.output_gradient);
    if (float* dx = wanted(a.input_gradients, 0)) {
      passes_.forward(stream, dy, a.parameters[0], nullptr, dx);
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {
      sum_bias_gradient(context_.threads, out_.elements() / out_[3], out_[3], dy, dbias);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      passes_.weight_gradient(stream, dy, floats(a.inputs[0]), dweight);
    }
  }

 private:
  CpuContext& context_;
  ConvolutionPasses passes_;
  bool bias_;
  Shape in_, out_;
};

Sides other_way(Sides sides) { return {sides.columns, sides.rows}; }
// Whether an image is a sequence (N, L, 1, C), which has one row of L places as well: oneDNN is
// fast along rows.
template <class Spec>
bool is_sequence(const Spec& spec, const Shape& in) {
  return in[2] == 1 && spec.kernel.columns == 1 && spec.padding.columns == 0;
}
Shape other_way(const Shape& in) { return {in[0], in[2], in[1], in[3]}; }

}  // namespace

std::unique_ptr<LayerKernel> make_convolution(CpuContext& context, const Convolution& spec,
                                              const Shape& in) {
  if (is_sequence(spec, in) && (!spec.padding_end || spec.padding_end->columns == 0)) {
    Convolution along = spec;
    along.kernel = other_way(spec.kernel);
    along.stride = other_way(spec.stride);
    along.padding = other_way(spec.padding);
    along.dilation = other_way(spec.dilation);
    if (spec.padding_end) along.padding_end = other_way(*spec.padding_end);
    return std::make_unique<ConvolutionKernel>(context, along, other_way(in));
  }
  return std::make_unique<ConvolutionKernel>(context, spec, in);
}

std::unique_ptr<LayerKernel> make_transposed_convolution(CpuContext& context,
                                                         const TransposedConvolution& spec,
                                                         const Shape& in) {
  const Shape out = transposed_output(spec, in);
  Convolution gradient = reference::gradient_of(spec, in);
  if (is_sequence(spec, in) && out[2] == 1) {
    gradient.kernel = other_way(gradient.kernel);
    gradient.stride = other_way(gradient.stride);
    gradient.padding = other_way(gradient.padding);
    gradient.dilation = other_way(gradient.dilation);
    return std::make_unique<TransposedConvolutionKernel>(context, spec, gradient, other_way(in),
                                                         other_way(out));
  }
  return std::make_unique<TransposedConvolutionKernel>(context, spec, gradient, in, out);
}

}  // namespace hetpipe
