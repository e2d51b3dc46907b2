// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/recurrent.h"

#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/parameters.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/gru.h"
#include "kernels/cuda/own/lstm.h"

namespace hetpipe::cuda {
namespace {

using reference::RecurrentSizes;

// PyTorch's LSTM and GRU. The products with the input are one of all steps together; those with the
// state are one per step over the samples. The stash is the gates (N, T, G*H), of T of an LSTM and
// fp32 of a GRU, and, in fp32, the cells of an LSTM or b_n of a GRU (N, T, H).
template <class T>
class RecurrentLayer final : public LayerKernel {
 public:
  RecurrentLayer(LayerContext& context, const Recurrent& spec, const Shape& in)
      : context_(context),
        bias_(spec.bias),
        s_(spec, in),
        sums_(context.libraries,
              {.rows = s_.rows(), .columns = s_.gates(), .inner = s_.in, .transposed_b = true},
              in_fp32()),
        state_(context.libraries,
               {.rows = s_.batch,
                .columns = s_.gates(),
                .inner = s_.hidden,
                .transposed_b = true,
                .step_a = s_.tokens * s_.hidden,
                .step_c = s_.gru ? s_.gates() : s_.tokens * s_.gates()},
               in_fp32()),
        dstate_(context.libraries,
                {.rows = s_.batch,
                 .columns = s_.hidden,
                 .inner = s_.gates(),
                 .step_a = s_.tokens * s_.gates()},
                in_fp32()),
        dinput_(context.libraries, {.rows = s_.rows(), .columns = s_.in, .inner = s_.gates()},
                {context.precision, element_of(context.precision)}),
        dweight_input_(
            context.libraries,
            {.rows = s_.gates(), .columns = s_.in, .inner = s_.rows(), .transposed_a = true},
            in_fp32()),
        dweight_hidden_(context.libraries,
                        {.rows = s_.gates(),
                         .columns = s_.hidden,
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
    float* const kept = kept_of(stash);
    const Rounded<T> weight_input(context_, stream, a.parameters[0], s_.gates() * s_.in);
    const Rounded<T> weight_hidden(context_, stream, a.parameters[1], s_.gates() * s_.hidden);
    const Workspace<float> sums(context_, stream, s_.rows() * s_.gates());
    run(stream, sums_, a.inputs[0], weight_input.get(), sums.get(), 0);
    T* const h = as<T>(a.output);
    const LstmStep step_sizes{s_.batch, s_.hidden};
    if (s_.gru) {
      const GruBiases biases{bias_ ? a.parameters[2] : nullptr, bias_ ? a.parameters[3] : nullptr};
      const Workspace<float> state(context_, stream, s_.batch * s_.gates());
      for (std::int64_t step = 0; step < s_.tokens; ++step) {
        const std::int64_t t = s_.token(step), before = s_.before(t);
        if (step > 0) {
          run(stream, state_, h + before * s_.hidden, weight_hidden.get(), state.get(), 0);
        }
        gru_step_forward<T>(
            step_sizes, of_gates(static_cast<const float*>(sums.get()), t),
            step > 0 ? state.get() : nullptr, biases,
            step > 0 ? of_units(static_cast<const T*>(h), before) : StepRows<const T>{},
            of_gates(as<float>(stash), t), of_units(kept, t), of_units(h, t), handle(stream));
      }
      return;
    }
    const Workspace<float> bias(context_, stream, bias_ ? s_.gates() : 0);
    if (bias_) sum(bias.get(), a.parameters[2], a.parameters[3], s_.gates(), handle(stream));
    for (std::int64_t step = 0; step < s_.tokens; ++step) {
      const std::int64_t t = s_.token(step), before = s_.before(t);
      if (step > 0) {
        run(stream, state_, h + before * s_.hidden, weight_hidden.get(),
            sums.get() + t * s_.gates(), 1);
      }
      lstm_step_forward<T>(step_sizes, of_gates(static_cast<const float*>(sums.get()), t),
                           bias.get(), cells_before(kept, step), of_gates(as<T>(stash), t),
                           of_units(kept, t), of_units(h, t), handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const Workspace<T> of_input(context_, stream, s_.rows() * s_.gates());
    // An LSTM's are the same.
    const Workspace<T> of_state_only(context_, stream, s_.gru ? s_.rows() * s_.gates() : 0);
    T* const of_state = s_.gru ? of_state_only.get() : of_input.get();
    gate_gradients(stream, a, of_input.get(), of_state);
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      const Rounded<T> weight(context_, stream, a.parameters[0], s_.gates() * s_.in);
      run(stream, dinput_, of_input.get(), weight.get(), dx, 0);
    }
    if (float* const dweight = wanted(a.parameter_gradients, 0)) {
      run(stream, dweight_input_, of_input.get(), a.inputs[0], dweight, 0);
    }
    bias_gradient(stream, of_input.get(), wanted(a.parameter_gradients, 2));
    bias_gradient(stream, of_state, wanted(a.parameter_gradients, 3));
    if (float* const dweight = wanted(a.parameter_gradients, 1)) {
      hidden_weight_gradient(stream, a, of_state, dweight);
    }
  }

 private:
  ProductTypes in_fp32() const { return {context_.precision, ElementType::fp32}; }
  std::int64_t gates_bytes() const {  // what follows begins at a multiple of 16
    const auto bytes =
        s_.rows() * s_.gates() * static_cast<std::int64_t>(s_.gru ? sizeof(float) : sizeof(T));
    return (bytes + 15) / 16 * 16;
  }
  std::int64_t stash_bytes() const {
    return gates_bytes() + s_.rows() * s_.hidden * static_cast<std::int64_t>(sizeof(float));
  }
  template <class Byte>
  auto* kept_of(Byte* stash) const {
    return as<float>(stash + gates_bytes());
  }
  // Token t of (N, T, G*H) and of (N, T, H).
  template <class P>
  StepRows<P> of_gates(P* first, std::int64_t t) const {
    return {first + t * s_.gates(), s_.tokens * s_.gates()};
  }
  template <class P>
  StepRows<P> of_units(P* first, std::int64_t t) const {
    return {first + t * s_.hidden, s_.tokens * s_.hidden};
  }
  StepRows<const float> cells_before(const float* cells, std::int64_t step) const {
    if (step == 0) return {};
    return of_units(cells, s_.before(s_.token(step)));
  }
  void run(Stream& stream, MatrixProduct& product, const void* x, const void* y, void* z,
           float beta) {
    const Workspace<> workspace(context_, stream, static_cast<std::int64_t>(product.workspace()));
    product.run(handle(stream),
                {.a = x, .b = y, .c = z, .workspace = workspace.get(), .beta = beta});
  }

  // From the last step to the first.
  void gate_gradients(Stream& stream, const BackwardArguments& a, T* of_input, T* of_state) {
    const float* const kept = kept_of(a.stash);
    const T *const y = as<T>(a.output), *const dy = as<T>(std::as_const(a.output_gradient));
    const Rounded<T> weight(context_, stream, a.parameters[1], s_.gates() * s_.hidden);
    const Workspace<float> carried(context_, stream, s_.batch * s_.hidden);
    const Workspace<float> dh(context_, stream, s_.batch * s_.hidden);
    for (std::int64_t step = s_.tokens - 1; step >= 0; --step) {
      const std::int64_t t = s_.token(step), after = s_.reverse ? t - 1 : t + 1;
      const bool last = step + 1 == s_.tokens;
      const StepPlace place = last ? StepPlace::last : StepPlace::before_another;
      if (!last) run(stream, dstate_, of_state + after * s_.gates(), weight.get(), dh.get(), 0);
      const float* const recurrent = last ? nullptr : dh.get();
      if (s_.gru) {
        gru_step_backward<T>(
            {s_.batch, s_.hidden}, place, of_gates(as<float>(a.stash), t), of_units(kept, t),
            step > 0 ? of_units(y, s_.before(t)) : StepRows<const T>{}, of_units(dy, t), recurrent,
            carried.get(), of_gates(of_input, t), of_gates(of_state, t), handle(stream));
      } else {
        lstm_step_backward<T>({s_.batch, s_.hidden}, place, of_gates(as<T>(a.stash), t),
                              cells_before(kept, step), of_units(kept, t), of_units(dy, t),
                              recurrent, carried.get(), of_gates(of_input, t), handle(stream));
      }
    }
  }

  void bias_gradient(Stream& stream, const T* gradients, float* dbias) {
    if (dbias == nullptr) return;
    const Workspace<> scratch(
        context_, stream,
        static_cast<std::int64_t>(column_sums_scratch_bytes<T>(s_.rows(), s_.gates())));
    column_sums(s_.rows(), s_.gates(), gradients, dbias, scratch.get(), handle(stream));
  }

  // The sum over all rows but each sample's first step of the gradients times hᵀ of the row before:
  // one product, once the first steps' gradients, which are no longer needed, are zero.
  void hidden_weight_gradient(Stream& stream, const BackwardArguments& a, T* gradients,
                              float* dweight) {
    const auto row = static_cast<std::size_t>(s_.gates()) * sizeof(T);
    check(cudaMemset2DAsync(gradients + s_.token(0) * s_.gates(),
                            row * static_cast<std::size_t>(s_.tokens), 0, row,
                            static_cast<std::size_t>(s_.batch), handle(stream)),
          "clearing gradients of first steps");
    if (s_.rows() == 1) {
      check(cudaMemsetAsync(dweight, 0,
                            static_cast<std::size_t>(s_.gates() * s_.hidden) * sizeof(float),
                            handle(stream)),
            "clearing a gradient");
      return;
    }
    // Row r and the one before it: r - 1, in reverse r + 1.
    const T* const y = as<T>(a.output);
    run(stream, dweight_hidden_, s_.reverse ? gradients : gradients + s_.gates(),
        s_.reverse ? y + s_.hidden : y, dweight, 0);
  }

  LayerContext& context_;
  bool bias_;
  RecurrentSizes s_;
  MatrixProduct sums_, state_, dstate_, dinput_, dweight_input_, dweight_hidden_;
};

}  // namespace

LayerMaker make_recurrent(LayerContext& context, const Recurrent& spec, const Shape& in) {
  return make_of_type<RecurrentLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
