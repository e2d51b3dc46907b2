// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "kernels/cuda/blas/linear.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/embedding.h"

// A linear layer of many outputs whose number is odd, as GPT-2's vocabulary of 50,257: the
// library's fast products want rows that start at multiples of 16 bytes (measured on an H200 in
// bf16: the three products of that layer ran at a third of their usual rate). So they are made of
// padded rows, a piece of the rows at a time, which bounds the memory of copies.
namespace hetpipe::cuda {
namespace {

constexpr std::int64_t kMultiple = 64;                            // of padded outputs
constexpr std::int64_t kPieceElements = std::int64_t{128} << 20;  // of padded outputs at a time
constexpr std::int64_t kFewest = std::int64_t{1} << 20;           // outputs that pay for copies

template <class T>
class PaddedLinear final : public LayerKernel {
 public:
  PaddedLinear(LayerContext& context, const Linear& spec, const Shape& in)
      : context_(context),
        spec_(spec),
        rows_(in.elements() / in[in.rank() - 1]),
        inputs_(in[in.rank() - 1]),
        outputs_(spec.output_features),
        padded_((outputs_ + kMultiple - 1) / kMultiple * kMultiple) {
    const std::int64_t pieces = (rows_ * padded_ + kPieceElements - 1) / kPieceElements;
    piece_rows_ = (rows_ + pieces - 1) / pieces;
  }

  void prepare(bool input_gradients) override {
    each_piece([&](std::int64_t, std::int64_t, LinearPlans& plans) {
      plans.forward_workspace();
      plans.weight_gradient_workspace();
      if (input_gradients) plans.input_gradient_workspace();
    });
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Workspace<T> weight = padded_weight(stream, a.parameters[0]);
    const Workspace<T> padded(context_, stream, piece_rows_ * padded_);
    T* const y = as<T>(a.output);
    each_piece([&](std::int64_t first, std::int64_t rows, LinearPlans& plans) {
      const Workspace<> workspace = memory(stream, plans.forward_workspace());
      plans.forward(handle(stream), as<T>(a.inputs[0]) + first * inputs_, weight.get(), nullptr,
                    padded.get(), workspace.get());
      fit_rows(static_cast<const T*>(padded.get()), y + first * outputs_, rows, padded_, outputs_,
               handle(stream));
    });
    if (!spec_.bias) return;
    position_forward(rows_, outputs_, static_cast<const T*>(y), a.parameters[1], y, handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const T* const dy = as<T>(a.output_gradient);
    float* const dweight = wanted(a.parameter_gradients, 0);
    float* const dbias = wanted(a.parameter_gradients, 1);
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dbias != nullptr) {
      const Workspace<> scratch = memory(stream, column_sums_scratch_bytes<T>(rows_, outputs_));
      column_sums(rows_, outputs_, dy, dbias, scratch.get(), handle(stream));
    }
    if (dweight == nullptr && dx == nullptr) return;
    const Workspace<T> weight =
        dx != nullptr ? padded_weight(stream, a.parameters[0]) : Workspace<T>();
    const Workspace<float> gradient(context_, stream, dweight != nullptr ? inputs_ * padded_ : 0);
    const Workspace<T> padded(context_, stream, piece_rows_ * padded_);
    each_piece([&](std::int64_t first, std::int64_t rows, LinearPlans& plans) {
      fit_rows(dy + first * outputs_, padded.get(), rows, outputs_, padded_, handle(stream));
      if (dweight != nullptr) {
        const Workspace<> workspace = memory(stream, plans.weight_gradient_workspace());
        plans.weight_gradient(handle(stream), as<T>(a.inputs[0]) + first * inputs_, padded.get(),
                              gradient.get(), nullptr, workspace.get(), first == 0 ? 0.0f : 1.0f);
      }
      if (dx != nullptr) {
        const Workspace<> workspace = memory(stream, plans.input_gradient_workspace());
        plans.input_gradient(handle(stream), padded.get(), weight.get(),
                             as<T>(dx) + first * inputs_, workspace.get());
      }
    });
    if (dweight == nullptr) return;
    const float* const sums = gradient.get();
    if (spec_.transposed) {
      convert(sums, dweight, outputs_ * inputs_, handle(stream));
    } else {
      fit_rows(sums, dweight, inputs_, padded_, outputs_, handle(stream));
    }
  }

 private:
  // body(first row, rows, plans for so many)
  template <class Body>
  void each_piece(const Body& body) {
    for (std::int64_t first = 0; first < rows_; first += piece_rows_) {
      const std::int64_t rows = std::min(piece_rows_, rows_ - first);
      body(first, rows, plans(rows));
    }
  }
  LinearPlans& plans(std::int64_t rows) {
    std::unique_ptr<LinearPlans>& of = plans_[rows];
    if (of == nullptr) {
      const Linear padded{.output_features = static_cast<int>(padded_),
                          .bias = false,
                          .transposed = spec_.transposed};
      of = std::make_unique<LinearPlans>(context_.libraries, padded, Shape{rows, inputs_},
                                         context_.precision);
    }
    return *of;
  }
  // Zeros where there are no weights: they meet the zeros of padded gradients.
  Workspace<T> padded_weight(Stream& stream, const float* weight) const {
    Workspace<T> copy(context_, stream, inputs_ * padded_);
    if (!spec_.transposed) {
      fit_rows(weight, copy.get(), inputs_, outputs_, padded_, handle(stream));
      return copy;
    }
    fit_rows(weight, copy.get(), 1, outputs_ * inputs_, padded_ * inputs_, handle(stream));
    return copy;
  }
  Workspace<> memory(Stream& stream, std::size_t bytes) const {
    return {context_, stream, static_cast<std::int64_t>(bytes)};
  }

  LayerContext& context_;
  Linear spec_;
  std::int64_t rows_, inputs_, outputs_, padded_, piece_rows_;
  std::map<std::int64_t, std::unique_ptr<LinearPlans>> plans_;  // by rows
};

}  // namespace

LayerMaker make_padded_linear(LayerContext& context, const Linear& spec, const Shape& in) {
  const std::int64_t inputs = in[in.rank() - 1], rows = in.elements() / inputs;
  const int pack = 16 / static_cast<int>(bytes_of(element_of(context.precision)));
  const bool odd = spec.output_features % pack != 0 && inputs % pack == 0;
  const bool slow = odd && context.precision != Precision::fp32;
  if (!slow || rows * spec.output_features < kFewest) return nullptr;
  return make_of_type<PaddedLinear>(context, spec, in);
}

}  // namespace hetpipe::cuda
