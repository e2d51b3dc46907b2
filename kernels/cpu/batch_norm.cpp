// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/batch_norm.h"
#include "kernels/cpu/onednn.h"

namespace hetpipe {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

const dnnl::normalization_flags kAffine =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

// Features (N, F) are an image of one pixel.
Shape as_image(const Shape& in) { return in.rank() == 4 ? in : Shape{in[0], 1, 1, in[1]}; }

class BatchNormKernel final : public LayerKernel {
 public:
  BatchNormKernel(CpuContext& context, const BatchNorm& spec, const Shape& in)
      : context_(context),
        spec_(spec),
        channels_(in[in.rank() - 1]),
        rows_(in.elements() / channels_),
        x_(nhwc(as_image(in))),
        per_channel_(plain({channels_}, tag::x)) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    std::optional<Primitive>& primitive = train ? train_ : evaluate_;
    if (!primitive) primitive = Primitive(description(train));
    float* mean = train ? reinterpret_cast<float*>(a.stash) : a.statistics[0];
    float* variance = train ? mean + channels_ : a.statistics[1];
    primitive->run(context_, stream,
                   {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                    {DNNL_ARG_MEAN, view(context_, per_channel_, mean)},
                    {DNNL_ARG_VARIANCE, view(context_, per_channel_, variance)},
                    {DNNL_ARG_SCALE, view(context_, per_channel_, a.parameters[0])},
                    {DNNL_ARG_SHIFT, view(context_, per_channel_, a.parameters[1])},
                    {DNNL_ARG_DST, view(context_, x_, floats(a.output))}});
    if (train && a.update_statistics) {
      reference::update_running_statistics(rows_, channels_, spec_.momentum, mean, variance,
                                           a.statistics[0], a.statistics[1]);
    }
  }

  // oneDNN computes all three gradients; what is not wanted goes to workspace.
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (!backward_) {
      backward_ = Primitive(dnnl::batch_normalization_backward::primitive_desc(
          {dnnl::prop_kind::backward, x_, x_, spec_.epsilon, kAffine}, attributes(),
          context_.engine, description(true)));
    }
    Buffer unwanted[3];
    const float* mean = reinterpret_cast<const float*>(a.stash);
    backward_->run(context_, stream,
                   {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                    {DNNL_ARG_MEAN, view(context_, per_channel_, mean)},
                    {DNNL_ARG_VARIANCE, view(context_, per_channel_, mean + channels_)},
                    {DNNL_ARG_SCALE, view(context_, per_channel_, a.parameters[0])},
                    {DNNL_ARG_SHIFT, view(context_, per_channel_, a.parameters[1])},
                    {DNNL_ARG_DIFF_DST, view(context_, x_, floats(a.output_gradient))},
                    {DNNL_ARG_DIFF_SRC,
                     target(context_, stream, x_, wanted(a.input_gradients, 0), unwanted[0])},
                    {DNNL_ARG_DIFF_SCALE, target(context_, stream, per_channel_,
                                                 wanted(a.parameter_gradients, 0), unwanted[1])},
                    {DNNL_ARG_DIFF_SHIFT, target(context_, stream, per_channel_,
                                                 wanted(a.parameter_gradients, 1), unwanted[2])}});
  }

 private:
  dnnl::batch_normalization_forward::primitive_desc description(bool train) const {
    const auto flags = train ? kAffine : kAffine | dnnl::normalization_flags::use_global_stats;
    const auto kind =
        train ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
    return {{kind, x_, spec_.epsilon, flags}, attributes(), context_.engine};
  }

  CpuContext& context_;
  BatchNorm spec_;
  std::int64_t channels_, rows_;
  memory::desc x_, per_channel_;
  std::optional<Primitive> train_, evaluate_, backward_;  // made when first used
};

}  // namespace

std::unique_ptr<LayerKernel> make_batch_norm(CpuContext& context, const BatchNorm& spec,
                                             const Shape& in) {
  return std::make_unique<BatchNormKernel>(context, spec, in);
}

}  // namespace hetpipe
