// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"

namespace hetpipe {
namespace {

using dnnl::memory;
using tag = memory::format_tag;

// Three matrix products on the canonical (in, out) weights; transposes are strides.
class LinearKernel final : public LayerKernel {
 public:
  LinearKernel(CpuContext& context, const Linear& spec, const Shape& in)
      : context_(context), spec_(spec), batch_(in[0]), in_(in[1]), out_(spec.output_features) {}

  // y = x·weight + bias
  void forward(Stream& stream, const ForwardArguments& a) override {
    if (!forward_) {
      const memory::desc bias = spec_.bias ? plain({1, out_}, tag::ab) : memory::desc();
      forward_ = product(rows(batch_, in_), rows(in_, out_), bias, rows(batch_, out_));
    }
    Arguments arguments = {{DNNL_ARG_SRC, view(context_, rows(batch_, in_), a.inputs[0])},
                           {DNNL_ARG_WEIGHTS, view(context_, rows(in_, out_), a.parameters[0])},
                           {DNNL_ARG_DST, view(context_, rows(batch_, out_), a.output)}};
    if (spec_.bias) {
      arguments.emplace(DNNL_ARG_BIAS, view(context_, rows(1, out_), a.parameters[1]));
    }
    forward_->run(context_, stream, std::move(arguments));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    if (float* dx = wanted(a.input_gradients, 0)) {  // dx = dy·weightᵀ
      if (!input_gradient_) {
        input_gradient_ =
            product(rows(batch_, out_), columns(out_, in_), memory::desc(), rows(batch_, in_));
      }
      input_gradient_->run(context_, stream,
                           {{DNNL_ARG_SRC, view(context_, rows(batch_, out_), a.output_gradient)},
                            {DNNL_ARG_WEIGHTS, view(context_, columns(out_, in_), a.parameters[0])},
                            {DNNL_ARG_DST, view(context_, rows(batch_, in_), dx)}});
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {  // dweight = xᵀ·dy
      if (!weight_gradient_) {
        weight_gradient_ =
            product(columns(in_, batch_), rows(batch_, out_), memory::desc(), rows(in_, out_));
      }
      weight_gradient_->run(
          context_, stream,
          {{DNNL_ARG_SRC, view(context_, columns(in_, batch_), a.inputs[0])},
           {DNNL_ARG_WEIGHTS, view(context_, rows(batch_, out_), a.output_gradient)},
           {DNNL_ARG_DST, view(context_, rows(in_, out_), dweight)}});
    }
    if (float* dbias = wanted(a.parameter_gradients, 1)) {
      parallel_pieces(context_.threads, out_, [&](std::int64_t begin, std::int64_t length) {
        loops::column_sums(dbias, a.output_gradient, batch_, out_, begin, length);
      });
    }
  }

 private:
  // Matrices by rows (the last index varies fastest) or by columns (a transposed view of rows).
  static memory::desc rows(std::int64_t m, std::int64_t n) { return plain({m, n}, tag::ab); }
  static memory::desc columns(std::int64_t m, std::int64_t n) { return plain({m, n}, tag::ba); }

  Primitive product(const memory::desc& left, const memory::desc& right, const memory::desc& bias,
                    const memory::desc& result) const {
    return Primitive(
        dnnl::matmul::primitive_desc({left, right, bias, result}, attributes(), context_.engine));
  }

  CpuContext& context_;
  Linear spec_;
  std::int64_t batch_, in_, out_;
  std::optional<Primitive> forward_, input_gradient_, weight_gradient_;  // made when first used
};

}  // namespace

std::unique_ptr<LayerKernel> make_linear(CpuContext& context, const Linear& spec, const Shape& in) {
  return std::make_unique<LinearKernel>(context, spec, in);
}

}  // namespace hetpipe
