// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/onednn.h"

namespace hetpipe {
namespace {

using dnnl::memory;

// oneDNN's tanh is vectorised; the definition's is some ten times slower.
class GeluKernel final : public LayerKernel {
 public:
  GeluKernel(CpuContext& context, const Shape& in)
      : context_(context),
        x_(plain({in.elements()}, memory::format_tag::a)),
        description_(
            {dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_gelu_tanh, x_, 0, 0},
            attributes(), context.engine) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    if (!forward_) forward_ = Primitive(description_);
    forward_->run(context_, stream,
                  {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                   {DNNL_ARG_DST, view(context_, x_, floats(a.output))}});
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    if (!backward_) {
      backward_ = Primitive(
          dnnl::eltwise_backward::primitive_desc({dnnl::algorithm::eltwise_gelu_tanh, x_, x_, 0, 0},
                                                 attributes(), context_.engine, description_));
    }
    backward_->run(context_, stream,
                   {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                    {DNNL_ARG_DIFF_DST, view(context_, x_, floats(a.output_gradient))},
                    {DNNL_ARG_DIFF_SRC, view(context_, x_, dx)}});
  }

 private:
  CpuContext& context_;
  memory::desc x_;
  dnnl::eltwise_forward::primitive_desc description_;
  std::optional<Primitive> forward_, backward_;  // made when first used
};

}  // namespace

std::unique_ptr<LayerKernel> make_gelu(CpuContext& context, const Shape& in) {
  return std::make_unique<GeluKernel>(context, in);
}

}  // namespace hetpipe
