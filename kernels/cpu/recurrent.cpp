// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/recurrent.h"

#include <algorithm>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/recurrent_loops.h"
#include "kernels/cpu/row_sums.h"

namespace hetpipe {
namespace {

using reference::RecurrentSizes;

// The products with the input are one of all steps together; those with the state are one per step
// over the samples.
class RecurrentKernel final : public LayerKernel {
 public:
  RecurrentKernel(CpuContext& context, const RecurrentSizes& sizes)
      : context_(context), s_(sizes) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    Buffer storage;
    float* gates = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      storage = workspace(stream, s_.rows() * (s_.gates() + s_.hidden));
      gates = storage.as<float>();
    }
    float* const kept = gates + s_.rows() * s_.gates();
    const float* const biases[] = {wanted(a.parameters, 2), wanted(a.parameters, 3)};
    input_sums(a, biases, gates);
    // (H, G): a product with a matrix as it lies is faster, and there is one for each step.
    const Buffer turned = workspace(stream, s_.gates() * s_.hidden);
    loops::transpose(turned.as<float>(), a.parameters[1], s_.gates(), s_.hidden);
    const Buffer states = workspace(stream, s_.gru ? s_.batch * s_.gates() : 0);
    float* const y = floats(a.output);
    for (std::int64_t step = 0; step < s_.tokens; ++step) {
      const std::int64_t t = s_.token(step), before = s_.before(t);
      float* const sums = s_.gru ? states.as<float>() : gates + t * s_.gates();
      const std::int64_t sums_step = s_.gru ? s_.gates() : s_.tokens * s_.gates();
      if (s_.gru) set_rows(biases[1], states.as<float>(), s_.batch);
      if (step > 0) {
        multiply(s_.batch, s_.gates(), s_.hidden, {y + before * s_.hidden, s_.tokens * s_.hidden},
                 {turned.as<float>(), s_.gates()}, 1, sums, sums_step);
      }
      parallel_for(threads(), s_.batch, [&](std::int64_t n) {
        const std::int64_t r = n * s_.tokens + t, prior = s_.before(r);
        float* const own = gates + r * s_.gates();
        if (s_.gru) {
          const float* const state = states.as<float>() + n * s_.gates();
          loops::gru_cell(s_.hidden, own, state, step == 0 ? nullptr : y + prior * s_.hidden,
                          y + r * s_.hidden);
          std::copy_n(state + 2 * s_.hidden, s_.hidden, kept + r * s_.hidden);
        } else {
          loops::lstm_cell(s_.hidden, own, step == 0 ? nullptr : kept + prior * s_.hidden,
                           kept + r * s_.hidden, y + r * s_.hidden);
        }
      });
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const Buffer storage = workspace(stream, (s_.gru ? 2 : 1) * s_.rows() * s_.gates());
    float* const da = storage.as<float>();
    float* const db = s_.gru ? da + s_.rows() * s_.gates() : da;
    gate_gradients(stream, a, da, db);
    if (float* dx = wanted(a.input_gradients, 0)) {
      multiply(s_.rows(), s_.in, s_.gates(), {da, s_.gates()}, {a.parameters[0], s_.in}, 0, dx,
               s_.in);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      multiply(s_.gates(), s_.in, s_.rows(), {da, s_.gates(), true}, {floats(a.inputs[0]), s_.in},
               0, dweight, s_.in);
    }
    if (float* dweight = wanted(a.parameter_gradients, 1)) {
      const Buffer before = states_before(stream, floats(a.output));
      multiply(s_.gates(), s_.hidden, s_.rows(), {db, s_.gates(), true},
               {before.as<float>(), s_.hidden}, 0, dweight, s_.hidden);
    }
    if (float* dbias = wanted(a.parameter_gradients, 2)) {
      sum_bias_gradient(context_.threads, s_.rows(), s_.gates(), da, dbias);
    }
    if (float* dbias = wanted(a.parameter_gradients, 3)) {
      sum_bias_gradient(context_.threads, s_.rows(), s_.gates(), db, dbias);
    }
  }

 private:
  Buffer workspace(Stream& stream, std::int64_t floats) const {
    return Buffer(context_.device, stream, static_cast<std::size_t>(floats) * sizeof(float),
                  MemoryKind::workspace);
  }
  // For the gates of one step: few are not worth more than one.
  int threads() const { return s_.batch * s_.hidden < 2048 ? 1 : context_.threads; }

  // Each row (G*H) = values, or 0 where that is null.
  void set_rows(const float* values, float* rows, std::int64_t count) const {
    for (std::int64_t r = 0; r < count; ++r) {
      float* const row = rows + r * s_.gates();
      values != nullptr ? void(std::copy_n(values, s_.gates(), row))
                        : void(std::fill_n(row, s_.gates(), 0.0f));
    }
  }
  // gates = x weight_ih^T + bias_ih, and bias_hh where an LSTM adds both.
  void input_sums(const ForwardArguments& a, const float* const (&biases)[2], float* gates) const {
    std::vector<float> bias(static_cast<std::size_t>(s_.gates()));
    for (std::size_t g = 0; g < bias.size() && biases[0] != nullptr; ++g) {
      bias[g] = biases[0][g] + (s_.gru ? 0.0f : biases[1][g]);
    }
    set_rows(bias.data(), gates, s_.rows());
    multiply(s_.rows(), s_.gates(), s_.in, {floats(a.inputs[0]), s_.in},
             {a.parameters[0], s_.in, true}, 1, gates, s_.gates());
  }

  // (N, T, H): of each step the state that it started from.
  Buffer states_before(Stream& stream, const float* y) const {
    Buffer result = workspace(stream, s_.rows() * s_.hidden);
    for (std::int64_t r = 0; r < s_.rows(); ++r) {
      float* const row = result.as<float>() + r * s_.hidden;
      if (r % s_.tokens == s_.token(0)) {
        std::fill_n(row, s_.hidden, 0.0f);
      } else {
        std::copy_n(y + s_.before(r) * s_.hidden, s_.hidden, row);
      }
    }
    return result;
  }

  // (N, T, G*H), from the last step to the first.
  void gate_gradients(Stream& stream, const BackwardArguments& a, float* da, float* db) const {
    const Buffer states = workspace(stream, 2 * s_.batch * s_.hidden);
    float* const dh = states.as<float>();
    float* const dc = dh + s_.batch * s_.hidden;
    std::fill_n(dh, 2 * s_.batch * s_.hidden, 0.0f);
    const float* const gates = reinterpret_cast<const float*>(a.stash);
    const float* const kept = gates + s_.rows() * s_.gates();
    const float *const y = floats(a.output), *const dy = floats(a.output_gradient);
    for (std::int64_t step = s_.tokens - 1; step >= 0; --step) {
      const std::int64_t t = s_.token(step), after = s_.reverse ? t - 1 : t + 1;
      // What goes from a GRU's state to the one before beside the gates is still there.
      for (std::int64_t n = 0; n < s_.batch; ++n) {
        const float* const own = dy + (n * s_.tokens + t) * s_.hidden;
        float* const to = dh + n * s_.hidden;
        s_.gru ? loops::add(to, own, s_.hidden) : void(std::copy_n(own, s_.hidden, to));
      }
      if (step + 1 < s_.tokens) {
        multiply(s_.batch, s_.hidden, s_.gates(), {db + after * s_.gates(), s_.tokens * s_.gates()},
                 {a.parameters[1], s_.hidden}, 1, dh, s_.hidden);
      }
      parallel_for(threads(), s_.batch, [&](std::int64_t n) {
        const std::int64_t r = n * s_.tokens + t, prior = s_.before(r);
        const float* const own = gates + r * s_.gates();
        if (s_.gru) {
          loops::gru_cell_gradient(s_.hidden, own, kept + r * s_.hidden,
                                   step == 0 ? nullptr : y + prior * s_.hidden, dh + n * s_.hidden,
                                   da + r * s_.gates(), db + r * s_.gates());
        } else {
          loops::lstm_cell_gradient(s_.hidden, own, step == 0 ? nullptr : kept + prior * s_.hidden,
                                    kept + r * s_.hidden, dh + n * s_.hidden, dc + n * s_.hidden,
                                    da + r * s_.gates());
        }
      });
    }
  }

  CpuContext& context_;
  RecurrentSizes s_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_recurrent(CpuContext& context, const Recurrent& spec,
                                            const Shape& in) {
  return std::make_unique<RecurrentKernel>(context, RecurrentSizes(spec, in));
}

}  // namespace hetpipe
