// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/lstm.h"

#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/parameters.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/reference/lstm.h"

namespace hetpipe::cuda {
namespace {

using reference::LstmSizes;

// The products with the input are one of all steps together; those with the state are one per step
// over the samples. The stash is the gates (N, T, 4H) of T and the cells (N, T, H) in fp32.
template <class T>
class LstmLayer final : public LayerKernel {
 public:
  LstmLayer(LayerContext& context, const Lstm& spec, const Shape& in)
      : context_(context),
        s_(reference::sizes_of(spec, in)),
        sums_(context.libraries, {.rows = s_.rows(), .columns = s_.gates(), .inner = s_.in},
              in_fp32()),
        state_(context.libraries,
               {.rows = s_.batch,
                .columns = s_.gates(),
                .inner = s_.hidden,
                .step_a = s_.tokens * s_.hidden,
                .step_c = s_.tokens * s_.gates()},
               in_fp32()),
        dstate_(context.libraries,
                {.rows = s_.batch,
                 .columns = s_.hidden,
                 .inner = s_.gates(),
                 .transposed_b = true,
                 .step_a = s_.tokens * s_.gates()},
                in_fp32()),
        dinput_(context.libraries,
                {.rows = s_.rows(), .columns = s_.in, .inner = s_.gates(), .transposed_b = true},
                {context.precision, element_of(context.precision)}),
        dweight_input_(
            context.libraries,
            {.rows = s_.in, .columns = s_.gates(), .inner = s_.rows(), .transposed_a = true},
            in_fp32()),
        dweight_hidden_(context.libraries,
                        {.rows = s_.hidden,
                         .columns = s_.gates(),
                         .inner = std::max<std::int64_t>(s_.rows() - 1, 1),
                         .transposed_a = true},
                        in_fp32()) {}

  void adjust(LayerShapes& shapes) const override { shapes.stash_bytes = stash_bytes(); }

  void prepare(bool) override {
    for (MatrixProduct* const product :
         {&sums_, &state_, &dstate_, &dinput_, &dweight_input_, &dweight_hidden_}) {
      product->workspace();
    }
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    const Workspace<> unkept(context_, stream, train ? 0 : stash_bytes());
    std::byte* const stash = train ? a.stash : unkept.get();
    T* const gates = as<T>(stash);
    float* const cells = cells_of(stash);
    const Rounded<T> weight_input(context_, stream, a.parameters[0], s_.in * s_.gates());
    const Rounded<T> weight_hidden(context_, stream, a.parameters[1], s_.hidden * s_.gates());
    const Workspace<float> sums(context_, stream, s_.rows() * s_.gates());
    run(stream, sums_, a.inputs[0], weight_input.get(), sums.get(), 0);
    T* const h = as<T>(a.output);
    for (std::int64_t t = 0; t < s_.tokens; ++t) {
      float* const sum = sums.get() + t * s_.gates();
      if (t > 0) run(stream, state_, h + (t - 1) * s_.hidden, weight_hidden.get(), sum, 1);
      lstm_step_forward<T>({s_.batch, s_.hidden}, {sum, s_.tokens * s_.gates()}, a.parameters[2],
                           before(cells, t), {gates + t * s_.gates(), s_.tokens * s_.gates()},
                           {cells + t * s_.hidden, s_.tokens * s_.hidden},
                           {h + t * s_.hidden, s_.tokens * s_.hidden}, handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const Workspace<T> dgates(context_, stream, s_.rows() * s_.gates());
    gate_gradients(stream, a, dgates.get());
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      const Rounded<T> weight(context_, stream, a.parameters[0], s_.in * s_.gates());
      run(stream, dinput_, dgates.get(), weight.get(), dx, 0);
    }
    if (float* const dweight = wanted(a.parameter_gradients, 0)) {
      run(stream, dweight_input_, a.inputs[0], dgates.get(), dweight, 0);
    }
    if (float* const dbias = wanted(a.parameter_gradients, 2)) {
      const Workspace<> scratch(
          context_, stream,
          static_cast<std::int64_t>(column_sums_scratch_bytes<T>(s_.rows(), s_.gates())));
      column_sums(s_.rows(), s_.gates(), static_cast<const T*>(dgates.get()), dbias, scratch.get(),
                  handle(stream));
    }
    if (float* const dweight = wanted(a.parameter_gradients, 1)) {
      hidden_weight_gradient(stream, a, dgates.get(), dweight);
    }
  }

 private:
  ProductTypes in_fp32() const { return {context_.precision, ElementType::fp32}; }
  std::int64_t gates_bytes() const {
    return s_.rows() * s_.gates() * static_cast<std::int64_t>(sizeof(T));
  }
  std::int64_t stash_bytes() const {
    return gates_bytes() + s_.rows() * s_.hidden * static_cast<std::int64_t>(sizeof(float));
  }
  template <class Byte>
  auto* cells_of(Byte* stash) const {
    return as<float>(stash + gates_bytes());
  }
  StepRows<const float> before(const float* cells, std::int64_t t) const {
    if (t == 0) return {};
    return {cells + (t - 1) * s_.hidden, s_.tokens * s_.hidden};
  }
  void run(Stream& stream, MatrixProduct& product, const void* x, const void* y, void* z,
           float beta) {
    const Workspace<> workspace(context_, stream, static_cast<std::int64_t>(product.workspace()));
    product.run(handle(stream),
                {.a = x, .b = y, .c = z, .workspace = workspace.get(), .beta = beta});
  }

  // From the last step to the first.
  void gate_gradients(Stream& stream, const BackwardArguments& a, T* dgates) {
    const T* const gates = as<T>(a.stash);
    const float* const cells = cells_of(a.stash);
    const T* const dy = as<T>(a.output_gradient);
    const Rounded<T> weight(context_, stream, a.parameters[1], s_.hidden * s_.gates());
    const Workspace<float> dcells(context_, stream, s_.batch * s_.hidden);
    const Workspace<float> dh(context_, stream, s_.batch * s_.hidden);
    for (std::int64_t t = s_.tokens - 1; t >= 0; --t) {
      const bool last = t + 1 == s_.tokens;
      if (!last) run(stream, dstate_, dgates + (t + 1) * s_.gates(), weight.get(), dh.get(), 0);
      lstm_step_backward<T>(
          {s_.batch, s_.hidden}, last ? StepPlace::last : StepPlace::before_another,
          {gates + t * s_.gates(), s_.tokens * s_.gates()}, before(cells, t),
          {cells + t * s_.hidden, s_.tokens * s_.hidden},
          {dy + t * s_.hidden, s_.tokens * s_.hidden}, last ? nullptr : dh.get(), dcells.get(),
          {dgates + t * s_.gates(), s_.tokens * s_.gates()}, handle(stream));
    }
  }

  // The sum over all rows but each sample's first of hᵀ of the row before times dgates: one
  // product, once the first rows' gradients, which are no longer needed, are zero.
  void hidden_weight_gradient(Stream& stream, const BackwardArguments& a, T* dgates,
                              float* dweight) {
    const auto row = static_cast<std::size_t>(s_.gates()) * sizeof(T);
    check(cudaMemset2DAsync(dgates, row * static_cast<std::size_t>(s_.tokens), 0, row,
                            static_cast<std::size_t>(s_.batch), handle(stream)),
          "clearing gradients of first steps");
    if (s_.rows() == 1) {
      check(cudaMemsetAsync(dweight, 0,
                            static_cast<std::size_t>(s_.hidden * s_.gates()) * sizeof(float),
                            handle(stream)),
            "clearing a gradient");
      return;
    }
    run(stream, dweight_hidden_, a.output, dgates + s_.gates(), dweight, 0);
  }

  LayerContext& context_;
  LstmSizes s_;
  MatrixProduct sums_, state_, dstate_, dinput_, dweight_input_, dweight_hidden_;
};

}  // namespace

LayerMaker make_lstm(LayerContext& context, const Lstm& spec, const Shape& in) {
  return make_of_type<LstmLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
