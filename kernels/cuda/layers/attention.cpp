// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/dnn/attention.h"
#include "kernels/cuda/layers/aligned_tensor.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/attention_softmax.h"

namespace hetpipe::cuda {
namespace {

// Fused, on cards that have it: the stash is one number per row of scores.
template <class T>
class FusedAttention final : public LayerKernel {
 public:
  FusedAttention(LayerContext& context, const SelfAttention& spec, const Shape& in)
      : context_(context),
        plans_(context.libraries, spec, in, context.precision),
        bytes_(static_cast<std::size_t>(in.elements() / 3) * sizeof(T)) {}

  bool supported() { return plans_.supported(); }
  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = static_cast<std::int64_t>(plans_.stash_bytes());
    shapes.backward_needs_output = true;
  }

  void prepare(bool) override {
    plans_.forward_workspace();
    plans_.backward_workspace();
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const auto stash_bytes = static_cast<std::int64_t>(plans_.stash_bytes());
    const Workspace<> unkept(context_, stream, a.mode == Mode::train ? 0 : stash_bytes);
    std::byte* const stash = a.mode == Mode::train ? a.stash : unkept.get();
    const Workspace<> workspace(context_, stream,
                                static_cast<std::int64_t>(plans_.forward_workspace()));
    const AlignedTensor x(context_, stream, a.inputs[0], 3 * bytes_);
    const AlignedTensor y(context_, stream, a.output, bytes_);
    plans_.forward(handle(stream), x.read(stream), y.write(), reinterpret_cast<float*>(stash),
                   workspace.get());
    y.written(stream);
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const Workspace<> workspace(context_, stream,
                                static_cast<std::int64_t>(plans_.backward_workspace()));
    const AlignedTensor x(context_, stream, a.inputs[0], 3 * bytes_);
    const AlignedTensor y(context_, stream, a.output, bytes_);
    const AlignedTensor dy(context_, stream, a.output_gradient, bytes_);
    const AlignedTensor gradient(context_, stream, dx, 3 * bytes_);
    plans_.backward(handle(stream), x.read(stream), y.read(stream),
                    reinterpret_cast<const float*>(a.stash), dy.read(stream), gradient.write(),
                    workspace.get());
    gradient.written(stream);
  }

 private:
  LayerContext& context_;
  AttentionPlans plans_;
  std::size_t bytes_;  // of the output
};

struct HeadSizes {
  std::int64_t samples, tokens, features, heads;
  bool causal;

  HeadSizes(const SelfAttention& spec, const Shape& in)
      : samples(in[0]),
        tokens(in[1]),
        features(in[2] / 3),
        heads(spec.heads),
        causal(spec.causal) {}
  std::int64_t width() const { return features / heads; }
  std::int64_t row() const { return 3 * features; }  // queries, keys and values of a token
  std::int64_t squares() const { return heads * tokens * tokens; }
  AttentionRows rows() const {
    return {heads * tokens, tokens, 1 / std::sqrt(static_cast<float>(width())), causal};
  }
  // Products of all heads of one sample: heads lie side by side in a row, squares one after
  // another. (T, T) = (T, d) of rows of `step` elements · (T, d)ᵀ of rows of `other` elements
  Product to_square(std::int64_t step, std::int64_t other) const {
    return {.rows = tokens,
            .columns = tokens,
            .inner = width(),
            .transposed_b = true,
            .step_a = step,
            .step_b = other,
            .batch = heads,
            .batch_a = width(),
            .batch_b = width(),
            .batch_c = tokens * tokens};
  }
  // (T, d) of rows of `step` elements = (T, T) or its transpose · (T, d) of rows of `other`
  // elements
  Product from_square(bool transposed, std::int64_t other, std::int64_t step) const {
    return {.rows = tokens,
            .columns = width(),
            .inner = tokens,
            .transposed_a = transposed,
            .step_b = other,
            .step_c = step,
            .batch = heads,
            .batch_a = tokens * tokens,
            .batch_b = width(),
            .batch_c = width()};
  }
};

// Matrix products around a softmax of its own, sample by sample: in fp32, and on older cards. The
// stash is the softmax (N, heads, T, T) of T.
template <class T>
class AttentionByProducts final : public LayerKernel {
 public:
  AttentionByProducts(LayerContext& context, const SelfAttention& spec, const Shape& in)
      : context_(context),
        s_(spec, in),
        scores_(context.libraries, s_.to_square(s_.row(), s_.row()), to_scores()),
        output_(context.libraries, s_.from_square(false, s_.row(), s_.features), to_activations()),
        dsoftmax_(context.libraries, s_.to_square(s_.features, s_.row()), to_scores()),
        dvalues_(context.libraries, s_.from_square(true, s_.features, s_.row()), to_activations()),
        dqueries_(context.libraries, s_.from_square(false, s_.row(), s_.row()), to_activations()),
        dkeys_(context.libraries, s_.from_square(true, s_.row(), s_.row()), to_activations()) {}

  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = s_.samples * s_.squares() * static_cast<std::int64_t>(sizeof(T));
  }

  void prepare(bool) override {
    for (MatrixProduct* const product :
         {&scores_, &output_, &dsoftmax_, &dvalues_, &dqueries_, &dkeys_}) {
      product->workspace();
    }
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    const Workspace<float> scores(context_, stream, s_.squares());
    const Workspace<T> unkept(context_, stream, train ? 0 : s_.squares());
    for (std::int64_t n = 0; n < s_.samples; ++n) {
      const T* const q = as<T>(a.inputs[0]) + n * s_.tokens * s_.row();
      T* const p = train ? as<T>(a.stash) + n * s_.squares() : unkept.get();
      run(stream, scores_, q, q + s_.features, scores.get());
      attention_softmax_forward(s_.rows(), scores.get(), p, handle(stream));
      run(stream, output_, p, q + 2 * s_.features, as<T>(a.output) + n * s_.tokens * s_.features);
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const gradient = wanted(a.input_gradients, 0);
    if (gradient == nullptr) return;
    const Workspace<float> dp(context_, stream, s_.squares());
    const Workspace<T> ds(context_, stream, s_.squares());
    for (std::int64_t n = 0; n < s_.samples; ++n) {
      const T* const q = as<T>(a.inputs[0]) + n * s_.tokens * s_.row();
      T* const dq = as<T>(gradient) + n * s_.tokens * s_.row();
      const T* const dy = as<T>(a.output_gradient) + n * s_.tokens * s_.features;
      const T* const p = as<T>(a.stash) + n * s_.squares();
      run(stream, dvalues_, p, dy, dq + 2 * s_.features);
      run(stream, dsoftmax_, dy, q + 2 * s_.features, dp.get());
      attention_softmax_backward(s_.rows(), p, static_cast<const float*>(dp.get()), ds.get(),
                                 handle(stream));
      run(stream, dqueries_, ds.get(), q + s_.features, dq);
      run(stream, dkeys_, ds.get(), q, dq + s_.features);
    }
  }

 private:
  ProductTypes to_scores() const { return {context_.precision, ElementType::fp32}; }
  ProductTypes to_activations() const {
    return {context_.precision, element_of(context_.precision)};
  }
  void run(Stream& stream, MatrixProduct& product, const void* x, const void* y, void* z) {
    const Workspace<> workspace(context_, stream, static_cast<std::int64_t>(product.workspace()));
    product.run(handle(stream), {.a = x, .b = y, .c = z, .workspace = workspace.get()});
  }

  LayerContext& context_;
  HeadSizes s_;
  MatrixProduct scores_, output_, dsoftmax_, dvalues_, dqueries_, dkeys_;
};

}  // namespace

LayerMaker make_fused_attention(LayerContext& context, const SelfAttention& spec, const Shape& in) {
  const auto fused = [&]<class T>(T) -> LayerMaker {
    auto kernel = std::make_unique<FusedAttention<T>>(context, spec, in);
    if (kernel->supported()) return kernel;
    return nullptr;
  };
  if (context.precision == Precision::bf16) return fused(Bf16{});
  if (context.precision == Precision::fp16) return fused(Fp16{});
  return nullptr;
}

LayerMaker make_attention(LayerContext& context, const SelfAttention& spec, const Shape& in) {
  LayerMaker kernel = make_fused_attention(context, spec, in);
  return kernel ? std::move(kernel) : make_of_type<AttentionByProducts>(context, spec, in);
}

}  // namespace hetpipe::cuda
