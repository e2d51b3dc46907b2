// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/chain.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/cuda_stream.h"
#include "kernels/element.h"
#include "kernels/layer.h"

// The CUDA device's layers: one class per layer type, a template on T, the type of activations.
// They only arrange memory and order; what computes is own/ and the vendor's libraries.
namespace hetpipe::cuda {

// What all layers of a device share; outlives them.
struct LayerContext {
  Device& device;
  Context& libraries;
  Precision precision;
  Stream& tables;  // on which layers' constant tables come and go
};

// Activations as elements of T.
template <class T>
const T* as(const std::byte* activations) {
  return reinterpret_cast<const T*>(activations);
}
template <class T>
T* as(std::byte* activations) {
  return reinterpret_cast<T*>(activations);
}

// Gradients beyond the span, like null ones, are not wanted.
template <class T>
T* wanted(std::span<T* const> gradients, std::size_t i) {
  return i < gradients.size() ? gradients[i] : nullptr;
}

// Memory for one call.
template <class T = std::byte>
class Workspace {
 public:
  Workspace() = default;
  Workspace(const LayerContext& context, Stream& stream, std::int64_t elements)
      : buffer_(context.device, stream, static_cast<std::size_t>(elements) * sizeof(T),
                MemoryKind::workspace) {}
  T* get() const { return buffer_.as<T>(); }

 private:
  Buffer buffer_;
};

using LayerMaker = std::unique_ptr<LayerKernel>;

LayerMaker make_convolution(LayerContext& context, const Convolution& spec, const Shape& in);
// Null where the library cannot do both in one pass.
LayerMaker make_convolution_relu(LayerContext& context, const Convolution& spec, const Shape& in);
LayerMaker make_transposed_convolution(LayerContext& context, const TransposedConvolution& spec,
                                       const Shape& in);
LayerMaker make_linear(LayerContext& context, const Linear& spec, const Shape& in);
// Null where its products are as fast as they are.
LayerMaker make_padded_linear(LayerContext& context, const Linear& spec, const Shape& in);
LayerMaker make_linear_gelu(LayerContext& context, const Linear& spec,
                            const Shape& in);  // likewise
// What a batch norm takes along: the sum with a second input, then ReLU.
struct NormTail {
  bool residual = false;
  bool relu = false;
};
LayerMaker make_batch_norm(LayerContext& context, const BatchNorm& spec, const NormTail& tail,
                           const Shape& in);
LayerMaker make_elementwise(LayerContext& context, const ElementwiseSpec& spec, const Shape& in);
LayerMaker make_add(LayerContext& context, const Shape& in);
LayerMaker make_add_relu(LayerContext& context, const Shape& in);
LayerMaker make_dropout(LayerContext& context, const Dropout& spec, const Shape& in,
                        std::uint64_t key);
LayerMaker make_dropout(LayerContext& context, const AlphaDropout& spec, const Shape& in,
                        std::uint64_t key);
LayerMaker make_dropout_add(LayerContext& context, const Dropout& spec, const Shape& in,
                            std::uint64_t key);
LayerMaker make_pooling(LayerContext& context, const MaxPool& spec, const Shape& in);
LayerMaker make_pooling(LayerContext& context, const AveragePool& spec, const Shape& in);
LayerMaker make_pooling(LayerContext& context, const GlobalAveragePool& spec, const Shape& in);
LayerMaker make_pooling(LayerContext& context, const AdaptivePool& spec, const Shape& in);
LayerMaker make_resize(LayerContext& context, const Resize& spec, const Shape& in);
LayerMaker make_flatten(LayerContext& context, const Shape& in);
LayerMaker make_shift(LayerContext& context, const Shift& spec, const Shape& in);
LayerMaker make_concat(LayerContext& context, const std::vector<Shape>& inputs);
LayerMaker make_embedding(LayerContext& context, const Embedding& spec, const Shape& in);
LayerMaker make_positions(LayerContext& context, const PositionEmbedding& spec, const Shape& in);
LayerMaker make_layer_norm(LayerContext& context, const LayerNorm& spec, const Shape& in);
LayerMaker make_rms_norm(LayerContext& context, const RmsNorm& spec, const Shape& in);
LayerMaker make_group_norm(LayerContext& context, const GroupNorm& spec, const Shape& in);
LayerMaker make_attention(LayerContext& context, const SelfAttention& spec, const Shape& in);
// Null where the library has no fused plan.
LayerMaker make_fused_attention(LayerContext& context, const SelfAttention& spec, const Shape& in);
LayerMaker make_lstm(LayerContext& context, const Lstm& spec, const Shape& in);
LayerMaker make_recurrent(LayerContext& context, const Recurrent& spec, const Shape& in);
LayerMaker make_loss(LayerContext& context, const SoftmaxCrossEntropy& spec, const Shape& in);
LayerMaker make_pointwise(LayerContext& context, const Pointwise& spec,
                          const std::vector<Shape>& inputs);
LayerMaker make_move(LayerContext& context, const Move& spec, const std::vector<Shape>& inputs);
LayerMaker make_product(LayerContext& context, const hetpipe::Product& spec,
                        const std::vector<Shape>& inputs);
LayerMaker make_attention(LayerContext& context, const Attention& spec,
                          const std::vector<Shape>& inputs, std::uint64_t key);
LayerMaker make_reduce(LayerContext& context, const Reduce& spec, const Shape& in);
LayerMaker make_softmax(LayerContext& context, const Softmax& spec, const Shape& in);
LayerMaker make_cumulative_sum(LayerContext& context, const Shape& in);
LayerMaker make_loss(LayerContext& context, const RegressionLoss& spec, const Shape& in);
LayerMaker make_loss(LayerContext& context, const OutputLoss& spec, const Shape& in);

// One kernel for the whole chain (Device::fuse); null where there is none.
LayerMaker fuse_layers(LayerContext& context, std::span<const ChainedLayer> chain);

// make(T{}) with the context's type of activations.
template <class Make>
LayerMaker with_type(const LayerContext& context, const Make& make) {
  switch (element_of(context.precision)) {
    case ElementType::bf16:
      return make(Bf16{});
    case ElementType::fp16:
      return make(Fp16{});
    case ElementType::fp32:
      break;
  }
  return make(0.0f);
}

// Kernel<T> of the context's type, made from `arguments`.
template <template <class> class Kernel, class... Arguments>
LayerMaker make_of_type(LayerContext& context, const Arguments&... arguments) {
  return with_type(context, [&]<class T>(T) -> LayerMaker {
    return std::make_unique<Kernel<T>>(context, arguments...);
  });
}

}  // namespace hetpipe::cuda
