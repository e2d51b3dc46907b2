// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <algorithm>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"

#ifdef __clang__  // makes one function per width of plain functions, not of templates
#undef HETPIPE_EVERY_WIDTH
#define HETPIPE_EVERY_WIDTH
#endif

namespace hetpipe {
namespace {

template <Elementwise Layer>
HETPIPE_EVERY_WIDTH void forward_loop(const Layer& layer, float* y, const float* x,
                                      std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = layer.forward(x[i]);
}
template <Elementwise Layer>
HETPIPE_EVERY_WIDTH void backward_loop(const Layer& layer, float* dx, const float* __restrict read,
                                       const float* dy, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) dx[i] = layer.backward(read[i], dy[i]);
}

template <Elementwise Layer>
class ElementwiseLoop final : public LayerKernel {
 public:
  ElementwiseLoop(const Layer& layer, const Shape& in, int threads)
      : layer_(layer), count_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      forward_loop(layer_, floats(a.output) + begin, floats(a.inputs[0]) + begin, n);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const float* read = floats(read_by(row_of<Layer>().backward_reads, a));
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      backward_loop(layer_, dx + begin, read + begin, floats(a.output_gradient) + begin, n);
    });
  }

 private:
  Layer layer_;
  std::int64_t count_;
  int threads_;
};

// Layers that oneDNN computes: its exponentials are vectorised, where the definition's take some
// ten times as long. All of them read their input in backward.
struct Eltwise {
  dnnl::algorithm algorithm;
  float alpha = 0;
};
Eltwise eltwise_of(const Gelu&) { return {dnnl::algorithm::eltwise_gelu_tanh}; }
Eltwise eltwise_of(const Silu&) { return {dnnl::algorithm::eltwise_swish, 1}; }

class EltwiseKernel final : public LayerKernel {
 public:
  EltwiseKernel(CpuContext& context, const Eltwise& eltwise, const Shape& in)
      : context_(context),
        eltwise_(eltwise),
        x_(plain({in.elements()}, dnnl::memory::format_tag::a)),
        description_({dnnl::prop_kind::forward_training, eltwise.algorithm, x_, eltwise.alpha, 0},
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
          dnnl::eltwise_backward::primitive_desc({eltwise_.algorithm, x_, x_, eltwise_.alpha, 0},
                                                 attributes(), context_.engine, description_));
    }
    backward_->run(context_, stream,
                   {{DNNL_ARG_SRC, view(context_, x_, floats(a.inputs[0]))},
                    {DNNL_ARG_DIFF_DST, view(context_, x_, floats(a.output_gradient))},
                    {DNNL_ARG_DIFF_SRC, view(context_, x_, dx)}});
  }

 private:
  CpuContext& context_;
  Eltwise eltwise_;
  dnnl::memory::desc x_;
  dnnl::eltwise_forward::primitive_desc description_;
  std::optional<Primitive> forward_, backward_;  // made when first used
};

class AddKernel final : public LayerKernel {
 public:
  AddKernel(const Shape& in, int threads) : count_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      loops::sum(floats(a.output) + begin, floats(a.inputs[0]) + begin, floats(a.inputs[1]) + begin,
                 n);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    for (std::byte* const gradient : a.input_gradients) {
      float* const dx = floats(gradient);
      if (dx == nullptr || dx == floats(a.output_gradient)) continue;
      parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
        std::copy_n(floats(a.output_gradient) + begin, n, dx + begin);
      });
    }
  }

 private:
  std::int64_t count_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_elementwise(CpuContext& context, const ElementwiseSpec& spec,
                                              const Shape& in) {
  return std::visit(
      [&]<class Layer>(const Layer& layer) -> std::unique_ptr<LayerKernel> {
        constexpr ElementwiseRow<Layer> kRow = row_of<Layer>();
        if constexpr (kRow.cpu == CpuKernel::onednn) {
          static_assert(kRow.backward_reads == BackwardReads::input);
          return std::make_unique<EltwiseKernel>(context, eltwise_of(layer), in);
        } else {
          return std::make_unique<ElementwiseLoop<Layer>>(layer, in, context.threads);
        }
      },
      spec);
}

std::unique_ptr<LayerKernel> make_loop_kernel(const Add&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<AddKernel>(in, threads);
}

}  // namespace hetpipe
