// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/lstm.h"

namespace hetpipe {
namespace {

using reference::LstmSizes;

// The products with the input are one of all steps together; those with the state are one per step
// over the samples. The cells are the definition's.
class LstmKernel final : public LayerKernel {
 public:
  LstmKernel(CpuContext& context, const LstmSizes& sizes) : context_(context), s_(sizes) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    Buffer storage;
    float* gates = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      storage = workspace(stream, s_.rows() * (s_.gates() + s_.hidden));
      gates = storage.as<float>();
    }
    float* const cells = gates + s_.rows() * s_.gates();
    parallel_for(context_.threads, s_.rows(), [&](std::int64_t r) {
      std::copy_n(a.parameters[2], s_.gates(), gates + r * s_.gates());
    });
    multiply(s_.rows(), s_.gates(), s_.in, {floats(a.inputs[0]), s_.in},
             {a.parameters[0], s_.gates()}, 1, gates, s_.gates());
    for (std::int64_t t = 0; t < s_.tokens; ++t) {
      if (t > 0) {
        multiply(s_.batch, s_.gates(), s_.hidden,
                 {floats(a.output) + (t - 1) * s_.hidden, s_.tokens * s_.hidden},
                 {a.parameters[1], s_.gates()}, 1, gates + t * s_.gates(), s_.tokens * s_.gates());
      }
      parallel_for(context_.threads, s_.batch, [&](std::int64_t n) {
        const std::int64_t r = n * s_.tokens + t;
        reference::lstm_cell(s_.hidden, gates + r * s_.gates(), before(cells, r),
                             cells + r * s_.hidden, floats(a.output) + r * s_.hidden);
      });
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const Buffer storage = gate_gradients(stream, a);
    const float* const dgates = storage.as<float>();
    if (float* dx = wanted(a.input_gradients, 0)) {
      multiply(s_.rows(), s_.in, s_.gates(), {dgates, s_.gates()},
               {a.parameters[0], s_.gates(), true}, 0, dx, s_.in);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      multiply(s_.in, s_.gates(), s_.rows(), {floats(a.inputs[0]), s_.in, true},
               {dgates, s_.gates()}, 0, dweight, s_.gates());
    }
    if (float* dweight = wanted(a.parameter_gradients, 1)) {
      std::fill_n(dweight, s_.hidden * s_.gates(), 0.0f);
      for (std::int64_t n = 0; n < s_.batch && s_.tokens > 1; ++n) {
        multiply(s_.hidden, s_.gates(), s_.tokens - 1,
                 {floats(a.output) + n * s_.tokens * s_.hidden, s_.hidden, true},
                 {dgates + (n * s_.tokens + 1) * s_.gates(), s_.gates()}, 1, dweight, s_.gates());
      }
    }
    if (float* dbias = wanted(a.parameter_gradients, 2)) {
      reference::bias_gradient(s_.rows(), s_.gates(), dgates, dbias);
    }
  }

 private:
  Buffer workspace(Stream& stream, std::int64_t floats) const {
    return Buffer(context_.device, stream, static_cast<std::size_t>(floats) * sizeof(float),
                  MemoryKind::workspace);
  }
  const float* before(const float* cells, std::int64_t row) const {
    return row % s_.tokens == 0 ? nullptr : cells + (row - 1) * s_.hidden;
  }

  // (N, T, 4H), from the last step to the first.
  Buffer gate_gradients(Stream& stream, const BackwardArguments& a) const {
    Buffer result = workspace(stream, s_.rows() * s_.gates());
    Buffer states = workspace(stream, 2 * s_.batch * s_.hidden);
    float* const dgates = result.as<float>();
    float* const dh = states.as<float>();
    float* const dc = dh + s_.batch * s_.hidden;
    std::fill_n(dc, s_.batch * s_.hidden, 0.0f);
    const float* const gates = reinterpret_cast<const float*>(a.stash);
    const float* const cells = gates + s_.rows() * s_.gates();
    for (std::int64_t t = s_.tokens - 1; t >= 0; --t) {
      for (std::int64_t n = 0; n < s_.batch; ++n) {
        std::copy_n(floats(a.output_gradient) + (n * s_.tokens + t) * s_.hidden, s_.hidden,
                    dh + n * s_.hidden);
      }
      if (t + 1 < s_.tokens) {
        multiply(s_.batch, s_.hidden, s_.gates(),
                 {dgates + (t + 1) * s_.gates(), s_.tokens * s_.gates()},
                 {a.parameters[1], s_.gates(), true}, 1, dh, s_.hidden);
      }
      parallel_for(context_.threads, s_.batch, [&](std::int64_t n) {
        const std::int64_t r = n * s_.tokens + t;
        reference::lstm_cell_gradient(s_.hidden, gates + r * s_.gates(), before(cells, r),
                                      cells + r * s_.hidden, dh + n * s_.hidden, dc + n * s_.hidden,
                                      dgates + r * s_.gates());
      });
    }
    return result;
  }

  CpuContext& context_;
  LstmSizes s_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_lstm(CpuContext& context, const Lstm& spec, const Shape& in) {
  return std::make_unique<LstmKernel>(context, reference::sizes_of(spec, in));
}

}  // namespace hetpipe
