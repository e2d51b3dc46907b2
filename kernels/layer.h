// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/sample.h"
#include "kernels/algebra.h"
#include "kernels/elementwise.h"
#include "kernels/shape.h"

// What a layer is (LayerSpec), what it needs (LayerShapes), and how a device computes it
// (LayerKernel). A kernel knows its own layer alone: no pipeline, no micro-batch, no version.
namespace hetpipe {

class Stream;

// (N, H, W, C) -> (N, H', W', output_channels). Parameters: weight (O, I/groups, KH, KW), bias (O).
// With groups, the outputs' channels [g*O/groups, (g+1)*O/groups) see the inputs' channels
// [g*I/groups, (g+1)*I/groups) alone. A sequence (N, L, C) is an image (N, L, 1, C).
struct Convolution {
  int output_channels = 0;
  Sides kernel = 3;
  Sides stride = 1;
  Sides padding = 0;
  bool bias = true;
  int groups = 1;
  Sides dilation = 1;
  // Behind the last row and column, where it is not `padding`: PyTorch's "same" of even kernels.
  std::optional<Sides> padding_end = {};
};
// (N, F) -> (N, output_features), or row by row (N, T, F) -> (N, T, output_features). Parameters:
// weight (in, out), or (out, in) where `transposed`, as an embedding's is that serves as the weight
// of the output too; bias (out).
struct Linear {
  int output_features = 0;
  bool bias = true;
  bool transposed = false;
  float deviation = 0;  // of normal initial weights; 0: uniform ones (He)
};
// Over all but the last extent of (N, H, W, C), (N, T, C) or (N, F). Parameters, where affine:
// scale (C), shift (C). Running statistics, where tracked: mean (C), variance (C, unbiased),
// updated in training as (1 - momentum)*old + momentum*new, as PyTorch does; a batch of one row has
// no unbiased variance and leaves it alone. Where they are not tracked, evaluation normalises with
// the batch's own, as training does.
struct BatchNorm {
  float epsilon = 1e-5f;
  float momentum = 0.1f;
  bool affine = true;
  bool tracked = true;
};
// Pools: with `ceil_mode` a last window may reach beyond the padded image, if it starts inside of
// the image or of the padding before it (PyTorch's rule).
struct MaxPool {
  Sides kernel = 2;  // at most 256 places: the winner's place in its window is kept in one byte
  Sides stride = 2;
  Sides padding = 0;  // padded places never win
  bool ceil_mode = false;
  Sides dilation = 1;
};
struct AveragePool {
  Sides kernel = 2;
  Sides stride = 2;
  Sides padding = 0;
  // As zeros (not what lies beyond the padding); false: the mean of the places inside the image.
  bool count_padding = true;
  bool ceil_mode = false;
};
struct GlobalAveragePool {};  // (N, H, W, C) -> (N, C)
struct Add {};                // of two tensors of one shape
// Two or more inputs that agree in all but channels, (N, H, W, C_i) or (N, C_i), side by side.
struct Concat {};
// y[h, w] = x[h + rows, w + columns], and 0 where that is outside: what a strided 1x1 convolution
// needs to see the pixels between.
struct Shift {
  int rows = 1;
  int columns = 1;
};
struct Flatten {
};  // (N, H, W, C) -> (N, C*H*W) in the order C, H, W, as PyTorch's NCHW models flatten
// Keeps each element with probability 1 - rate and scales it by 1/(1 - rate). The draw of element e
// of a sample is random_uniform(random_key({layer key, epoch, sample index}), e), e counted inside
// the sample.
struct Dropout {
  float rate = 0.5f;
  // So many draws of a sample, of which its element e takes number e % draws: 1 drops whole samples
  // (stochastic depth, Huang et al. 2016), C whole channels of (N, H, W, C). 0: a draw each.
  int draws = 0;
};
// Dropout for SELU (Klambauer et al. 2017, section 3): dropped elements become the value that SELU
// saturates at, then an affine map restores mean 0 and variance 1. Draws as for Dropout.
struct AlphaDropout {
  float rate = 0.1f;
};
// (N, classes) logits with labels (N) -> (N) losses; or (N, T, classes) with labels (N, T) -> (N)
// losses, each the mean over its T tokens. The backward's gradient is that of the mean over
// `BackwardArguments::loss_samples` samples. Smoothing as in PyTorch: the target is
// (1 - smoothing) at the label plus smoothing / classes everywhere; an evaluation's loss is
// without. Where `labelled` is not 0, so many of each sample's T labels are classes and the others
// kNoLabel (base/masked_tokens.h): those have no loss and no gradient, and the mean is over the
// labelled ones. Where `skips`, any of the labels may be kNoLabel. With class weights, a token's
// terms are weighed as PyTorch weighs them: by its label's weight, and in the smoothed part each
// class by its own. What the mean is over then is the caller's to know: `loss_weight` of the
// arguments.
//
// Where `mixed`, of (N, classes) logits, training reads three rows of N behind each other: labels,
// labels of what each sample is mixed with, and the first one's share, the bits of a float. A
// sample's loss is share times that of the one label plus (1 - share) times that of the other
// (Zhang et al. 2018, section 2); `correct` is of the first. Evaluations read labels alone.
struct SoftmaxCrossEntropy {
  float smoothing = 0;
  int labelled = 0;
  bool skips = false;
  ConstantTable<float> class_weights = {};  // one of each class; empty: 1
  bool mixed = false;                       // without the three above
};
// (N, ...) predictions with float targets of the same shape, whose bits lie where labels do (one of
// each element), -> (N) losses, each the mean over its sample's elements. The backward's gradient
// is that of the mean over `BackwardArguments::loss_samples` samples. With d = prediction - target:
// d^2; |d|; |d| < beta ? d^2 / (2 beta) : |d| - beta/2; and, of predictions x that are logits,
// max(x, 0) - x*target + log(1 + e^-|x|). `correct` is 0.
struct RegressionLoss {
  enum class Kind : std::uint8_t { squared, absolute, smooth_l1, binary_with_logits };
  Kind kind = Kind::squared;
  float beta = 1;  // of smooth_l1
  bool operator==(const RegressionLoss&) const = default;
};
// (N) or (N, 1) -> (N): the model's own loss of each sample. Labels are not read; `correct` is 0.
struct OutputLoss {
  bool operator==(const OutputLoss&) const = default;
};
// Several losses, one of each input -> (N): the sum of those that the layers of the terms compute
// of their inputs, each times its weight. A batch's labels lie part by part: those of all samples
// that are of the first part, then of the next; terms of one part read the same. `correct` is that
// of the first term that predicts classes, `loss_weight` is of those that weigh labels differently.
struct JointLoss {
  struct Term {
    std::variant<SoftmaxCrossEntropy, RegressionLoss, OutputLoss> loss;
    float weight = 1;
    int labels = 0;  // which part; not read by OutputLoss
  };
  std::vector<Term> terms;
  std::vector<std::int64_t> label_sizes;  // of each part: labels of a sample
};
// (N, T) tokens, as floats, -> (N, T, features). Parameters: weight (vocabulary, features). A
// token's gradient is 0.
struct Embedding {
  int vocabulary = 0;
  int features = 0;
  float deviation = 0.02f;  // of normal initial weights
  int padding = -1;         // a row of the weight whose gradient is 0; -1: none
};
// (N, T, F) + weight[0..T) of every sample. Parameters: weight (positions, F), positions >= T.
struct PositionEmbedding {
  int positions = 0;  // 0: T
  float deviation = 0.02f;
};
// Over the last extent of (N, ..., F), with the biased variance (Ba et al. 2016). Parameters: scale
// (F) where `scaled`, shift (F) where `shifted`.
struct LayerNorm {
  float epsilon = 1e-5f;
  bool scaled = true;
  bool shifted = true;
};
// (N, T, 3F), queries, keys and values packed in this order, -> (N, T, F); a head has F / heads
// columns d of each: softmax(q k^T / sqrt(d)) v (Vaswani et al. 2017). Causal: a token sees itself
// and those before.
struct SelfAttention {
  int heads = 1;
  bool causal = true;
};
// (N, T, F) -> (N, T, hidden) from a zero state. Gates in PyTorch's order i, f, g, o and one bias,
// the sum of PyTorch's two. Parameters: weight_input (F, 4*hidden), weight_hidden
// (hidden, 4*hidden), bias (4*hidden).
struct Lstm {
  int hidden = 0;
};

// (N, H, W, I) -> (N, (H-1)*stride - 2*padding + dilation*(kernel-1) + output_padding + 1, ..., O):
// the gradient of a convolution by its input. Parameters: weight (I, O/groups, KH, KW), bias (O).
struct TransposedConvolution {
  int output_channels = 0;
  Sides kernel = 2;
  Sides stride = 2;
  Sides padding = 0;
  Sides output_padding = 0;  // less than the stride
  Sides dilation = 1;
  int groups = 1;
  bool bias = true;
  bool operator==(const TransposedConvolution&) const = default;
};
// (N, H, W, C) -> (N, rows, columns, C). Place i of the output reads the input at i * step
// (nearest: rounded down), or (i + 1/2) * step - 1/2 (bilinear), or i * step (bilinear with aligned
// corners): PyTorch's rules and its arithmetic, which is float; step is input / output, or with
// aligned corners (input - 1) / (output - 1), unless the model gave a scale.
struct Resize {
  enum class Kind : std::uint8_t { nearest, bilinear, bilinear_aligned };
  Kind kind = Kind::nearest;
  int rows = 0, columns = 0;
  double row_step = 1, column_step = 1;
  bool operator==(const Resize&) const = default;
};
// (N, H, W, C) -> (N, rows, columns, C): means or maxima of windows [floor(i*H/rows),
// ceil((i+1)*H/rows)), as PyTorch's adaptive pooling.
struct AdaptivePool {
  bool maximum = false;
  int rows = 1, columns = 1;
  bool operator==(const AdaptivePool&) const = default;
};
// Over (H, W, C/groups) of each sample of (N, H, W, C), or (T, C/groups) of (N, T, C) (Wu & He
// 2018). Parameters, where affine: scale (C), shift (C).
struct GroupNorm {
  int groups = 1;
  float epsilon = 1e-5f;
  bool affine = true;
  bool operator==(const GroupNorm&) const = default;
};
// x / sqrt(mean(x^2) + epsilon) * scale over the last extent (Zhang & Sennrich 2019). Parameter:
// scale (F), unless not `scaled`; `one_plus`: 1 + scale in its place.
struct RmsNorm {
  float epsilon = 1e-6f;
  bool scaled = true;
  bool one_plus = false;
  bool operator==(const RmsNorm&) const = default;
};
// One direction of one layer of PyTorch's LSTM or GRU, from a zero state: (N, T, F) ->
// (N, T, hidden), in reverse order of T where `reverse` (places of the output are the input's).
// Parameters, with G = 4 gates i, f, g, o (LSTM) or 3 gates r, z, n (GRU): weight_ih (G*hidden, F),
// weight_hh (G*hidden, hidden), and where `bias`: bias_ih (G*hidden), bias_hh (G*hidden).
struct Recurrent {
  enum class Kind : std::uint8_t { lstm, gru };
  Kind kind = Kind::lstm;
  int hidden = 0;
  bool bias = true;
  bool reverse = false;
  bool operator==(const Recurrent&) const = default;
};

template <class Layer, class... Layers>
concept OneOf = (std::is_same_v<Layer, Layers> || ...);
template <class Layer>
concept AlgebraLayer =
    OneOf<Layer, Pointwise, Move, Reduce, Product, Softmax, CumulativeSum, Attention>;

// These, and the elementwise layers of kernels/elementwise.h.
template <class... Layers, class... Others>
std::variant<Layers..., Others...> joined(std::variant<Layers...>, std::variant<Others...>);
using LayerSpec = decltype(joined(
    std::variant<Convolution, Linear, BatchNorm, MaxPool, AveragePool, GlobalAveragePool, Add,
                 Flatten, Dropout, SoftmaxCrossEntropy, AlphaDropout, Concat, Shift, Embedding,
                 PositionEmbedding, LayerNorm, SelfAttention, Lstm, Pointwise, Move, Reduce,
                 Product, Softmax, CumulativeSum, Attention, TransposedConvolution, Resize,
                 AdaptivePool, GroupNorm, RmsNorm, Recurrent, RegressionLoss, OutputLoss,
                 JointLoss>{},
    ElementwiseSpec{}));
std::string to_string(const LayerSpec& spec);  // "convolution 3x3, 64 channels"
inline bool is_loss(const LayerSpec& spec) {
  return std::holds_alternative<SoftmaxCrossEntropy>(spec) ||
         std::holds_alternative<RegressionLoss>(spec) || std::holds_alternative<OutputLoss>(spec) ||
         std::holds_alternative<JointLoss>(spec);
}

// Everything that follows from a spec and its input shapes, on any device.
struct LayerShapes {
  Shape output;
  std::vector<ParameterShape> parameters;
  std::vector<ParameterShape> statistics;  // running statistics
  std::int64_t stash_bytes =
      0;                     // what forward leaves for backward beside input and output, at most
  double forward_flops = 0;  // of the whole batch; multiply-add counts 2
  double backward_flops = 0;
  bool backward_needs_input = false;  // so that callers can drop what is not needed
  // Of each input whether backward reads it; empty: all, where it needs them.
  std::vector<bool> backward_reads = {};
  bool backward_needs_output = false;
  // The output may take the memory of an input, that input's gradient that of the output's.
  bool forward_in_place = false;
  bool backward_in_place = false;
  std::size_t in_place_input = 0;  // which one; a layer's first
};
// UserError-free: throws std::invalid_argument with a plain sentence ("convolution: input (8, 10)
// is not (N, H, W, C)"); the caller adds model and layer name.
LayerShapes infer_shapes(const LayerSpec& spec, const std::vector<Shape>& inputs);
// Whether backward reads this input.
inline bool reads_in_backward(const LayerShapes& shapes, std::size_t input) {
  return shapes.backward_needs_input &&
         (shapes.backward_reads.empty() || shapes.backward_reads[input]);
}

enum class Mode { train, evaluate };

// Views of device memory; the caller owns all of it and keeps it alive until the stream is done.
// Bytes are activations and their gradients, elements of Device::element_type(); tokens (input of
// an Embedding) and losses are fp32 on every device, and so is everything with its type here.
struct ForwardArguments {
  std::span<const std::byte* const> inputs;
  std::span<const float* const> parameters;  // in the order of LayerShapes::parameters
  std::span<float* const> statistics;        // read in evaluate; read and updated in train
  std::byte* output = nullptr;
  std::byte* stash = nullptr;  // LayerShapes::stash_bytes; unused in evaluate
  Mode mode = Mode::train;
  std::span<const SampleKey> samples;    // host memory; dropout only
  const std::int32_t* labels = nullptr;  // device memory, (N), (N, T), (3, N) if mixed; loss only
  std::int32_t* correct = nullptr;  // device memory, (N): tokens of it whose arg max is the label;
                                    // loss only; may be null
  // What a sample's labels weigh on average over those that the mean loss is over: the sum of their
  // weights by the number of samples. 0: the loss's own, the same of every sample.
  double loss_weight = 0;
  bool update_statistics = true;  // false in recomputation
};

struct BackwardArguments {
  std::span<const std::byte* const> inputs;  // null where backward does not need them
  const std::byte* output = nullptr;         // likewise
  // Null for the loss. A call for parameter gradients may write over it: nobody reads it later.
  std::byte* output_gradient = nullptr;
  std::span<const float* const> parameters;
  const std::byte* stash = nullptr;
  // Overwritten, never accumulated. Null, or an empty span, where nobody wants them: a split
  // backward asks for the input gradients first and for the parameter gradients later.
  std::span<std::byte* const> input_gradients;
  std::span<float* const> parameter_gradients;
  std::span<const SampleKey> samples;
  const std::int32_t* labels = nullptr;
  std::int64_t loss_samples = 0;  // the mean's denominator; loss only
  double loss_weight = 0;         // as the forward's
  float loss_scale = 1;           // of its gradient, so that fp16 holds what follows; loss only
};

// What the backward of an elementwise layer reads beside the output's gradient.
inline const std::byte* read_by(BackwardReads reads, const BackwardArguments& a) {
  return reads == BackwardReads::input ? a.inputs[0] : a.output;
}

class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  // Where this kernel leaves or reads something else for its backward than infer_shapes says: makes
  // it true.
  virtual void adjust(LayerShapes&) const {}
  // Does beforehand what would hold up the first call: a device may search for its fastest way.
  // `input_gradients`: they will be needed.
  virtual void prepare(bool /*input_gradients*/) {}
  virtual void forward(Stream& stream, const ForwardArguments& arguments) = 0;
  virtual void backward(Stream& stream, const BackwardArguments& arguments) = 0;
};

struct SgdOptions {
  float rate = 0.01f;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
};
struct AdamOptions {
  float rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  bool decoupled = false;  // decay is no part of the gradient: AdamW
  // Of the first moment in the step, the rest is the gradient (QHAdam, arXiv 1810.06801, with its
  // nu2 = 1); 1: Adam.
  float nu = 1;
};

struct RmspropOptions {
  float rate = 1e-2f;
  float alpha = 0.99f;  // how much of the second moment each step keeps
  float epsilon = 1e-8f;
  float weight_decay = 0;
};

}  // namespace hetpipe
