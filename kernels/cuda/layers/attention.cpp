// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

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
        spec_(spec),
        in_(in),
        piece_(samples_at_once(context.libraries.options(), spec, in)),
        sample_(in[1] * in[2] / 3) {}

  // No, and said, where the card's engines cannot.
  bool supported() {
    bool all = true;
    each_piece([&](std::int64_t, AttentionPlans& plans) {
      if (!all || plans.supported()) return;
      all = false;
      if (!plans.why_not().empty() && context_.libraries.options().warn) {
        context_.libraries.options().warn("attention of " + to_string(in_) +
                                          " goes through matrix products: " + plans.why_not());
      }
    });
    return all;
  }
  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = stash() * static_cast<std::int64_t>(sizeof(float));
    shapes.backward_needs_output = true;
  }

  void prepare(bool) override {
    each_piece([](std::int64_t, AttentionPlans& plans) {
      plans.forward_workspace();
      plans.backward_workspace();
    });
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    const Workspace<float> unkept(context_, stream, train ? 0 : stash());
    float* const kept = train ? reinterpret_cast<float*>(a.stash) : unkept.get();
    const AlignedTensor x(context_, stream, a.inputs[0], 3 * bytes());
    const AlignedTensor y(context_, stream, a.output, bytes());
    const T* const from = static_cast<const T*>(x.read(stream));
    T* const to = static_cast<T*>(y.write());
    each_piece([&](std::int64_t first, AttentionPlans& plans) {
      const Workspace<> workspace = memory(stream, plans.forward_workspace());
      plans.forward(handle(stream), from + 3 * first * sample_, to + first * sample_,
                    kept + first / piece_ * stash_of_piece(), workspace.get());
    });
    y.written(stream);
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const AlignedTensor x(context_, stream, a.inputs[0], 3 * bytes());
    const AlignedTensor y(context_, stream, a.output, bytes());
    const AlignedTensor dy(context_, stream, a.output_gradient, bytes());
    const AlignedTensor gradient(context_, stream, dx, 3 * bytes());
    const T* const from = static_cast<const T*>(x.read(stream));
    const T* const out = static_cast<const T*>(y.read(stream));
    const T* const dout = static_cast<const T*>(dy.read(stream));
    const auto* const kept = reinterpret_cast<const float*>(a.stash);
    T* const to = static_cast<T*>(gradient.write());
    each_piece([&](std::int64_t first, AttentionPlans& plans) {
      const Workspace<> workspace = memory(stream, plans.backward_workspace());
      plans.backward(handle(stream), from + 3 * first * sample_, out + first * sample_,
                     kept + first / piece_ * stash_of_piece(), dout + first * sample_,
                     to + 3 * first * sample_, workspace.get());
    });
    gradient.written(stream);
  }

 private:
  // body(first sample, plans for as many as there are from there)
  template <class Body>
  void each_piece(const Body& body) {
    for (std::int64_t first = 0; first < in_[0]; first += piece_) {
      body(first, plans(std::min(piece_, in_[0] - first)));
    }
  }
  AttentionPlans& plans(std::int64_t samples) {
    std::unique_ptr<AttentionPlans>& of = plans_[samples];
    if (of == nullptr) {
      of = std::make_unique<AttentionPlans>(context_.libraries, spec_,
                                            Shape{samples, in_[1], in_[2]}, context_.precision);
    }
    return *of;
  }
  // Each piece's begins where plans can read it.
  std::int64_t stash_of_piece() const {
    constexpr std::int64_t kAligned = kTensorAlignment / sizeof(float);
    return (piece_ * spec_.heads * in_[1] + kAligned - 1) / kAligned * kAligned;
  }
  std::int64_t stash() const { return (in_[0] + piece_ - 1) / piece_ * stash_of_piece(); }
  std::size_t bytes() const { return static_cast<std::size_t>(in_[0] * sample_) * sizeof(T); }
  Workspace<> memory(Stream& stream, std::size_t bytes) const {
    return {context_, stream, static_cast<std::int64_t>(bytes)};
  }

  LayerContext& context_;
  SelfAttention spec_;
  Shape in_;
  std::int64_t piece_, sample_;  // samples; elements of one sample's output
  std::map<std::int64_t, std::unique_ptr<AttentionPlans>> plans_;  // by samples
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
