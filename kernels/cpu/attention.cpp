// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"
#include "kernels/reference/attention.h"

namespace hetpipe {
namespace {

using reference::AttentionSizes;

// Row t of `scores` (T, T) becomes its softmax over the tokens that t sees, 0 beyond.
void softmax_rows(const AttentionSizes& s, float* scores) {
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    float* const row = scores + t * s.tokens;
    const std::int64_t seen = s.seen(t);
    const float largest = *std::max_element(row, row + seen);
    float sum = 0;
    for (std::int64_t j = 0; j < seen; ++j) sum += row[j] = std::exp(row[j] - largest);
    const float inverse = 1 / sum;
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= inverse;
    std::fill(row + seen, row + s.tokens, 0.0f);
  }
}

// dp (T, T), the gradient of the softmax p, becomes that of the scores.
void softmax_gradient_rows(const AttentionSizes& s, const float* p, float* dp) {
  for (std::int64_t t = 0; t < s.tokens; ++t, p += s.tokens, dp += s.tokens) {
    double mean = 0;
    for (std::int64_t j = 0; j < s.tokens; ++j)
      mean += static_cast<double>(p[j]) * static_cast<double>(dp[j]);
    for (std::int64_t j = 0; j < s.tokens; ++j) dp[j] = p[j] * (dp[j] - static_cast<float>(mean));
  }
}

// Matrix products for each head of a sample; heads are dealt to the threads. Above a causal
// diagonal the products are computed and thrown away.
class AttentionKernel final : public LayerKernel {
 public:
  AttentionKernel(CpuContext& context, const AttentionSizes& sizes)
      : context_(context), s_(sizes), square_(s_.tokens * s_.tokens), row_(3 * s_.features) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    Buffer storage;
    if (a.mode == Mode::evaluate) storage = one_sample(stream);
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      float* const softmax = a.mode == Mode::evaluate
                                 ? storage.as<float>()
                                 : reinterpret_cast<float*>(a.stash) + n * s_.heads * square_;
      parallel_for(context_.threads, s_.heads, [&](std::int64_t h) {
        const float* const q = floats(a.inputs[0]) + n * s_.tokens * row_ + h * s_.width();
        float* const p = softmax + h * square_;
        multiply(s_.tokens, s_.tokens, s_.width(), {q, row_}, {q + s_.features, row_, true}, 0, p,
                 s_.tokens, static_cast<float>(s_.scale()));
        softmax_rows(s_, p);
        multiply(s_.tokens, s_.width(), s_.tokens, {p, s_.tokens}, {q + 2 * s_.features, row_}, 0,
                 floats(a.output) + n * s_.tokens * s_.features + h * s_.width(), s_.features);
      });
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const Buffer storage = one_sample(stream);
    const float scale = static_cast<float>(s_.scale());
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      parallel_for(context_.threads, s_.heads, [&](std::int64_t h) {
        const std::int64_t at = n * s_.tokens * row_ + h * s_.width();
        const float *q = floats(a.inputs[0]) + at, *k = q + s_.features, *v = k + s_.features;
        float *dq = dx + at, *dk = dq + s_.features, *dv = dk + s_.features;
        const float* const dy =
            floats(a.output_gradient) + n * s_.tokens * s_.features + h * s_.width();
        const float* const p =
            reinterpret_cast<const float*>(a.stash) + (n * s_.heads + h) * square_;
        float* const ds = storage.as<float>() + h * square_;
        const std::int64_t t = s_.tokens, d = s_.width();
        multiply(t, d, t, {p, t, true}, {dy, s_.features}, 0, dv, row_);
        multiply(t, t, d, {dy, s_.features}, {v, row_, true}, 0, ds, t);
        softmax_gradient_rows(s_, p, ds);
        multiply(t, d, t, {ds, t}, {k, row_}, 0, dq, row_, scale);
        multiply(t, d, t, {ds, t, true}, {q, row_}, 0, dk, row_, scale);
      });
    }
  }

 private:
  Buffer one_sample(Stream& stream) const {  // (heads, T, T)
    return Buffer(context_.device, stream,
                  static_cast<std::size_t>(s_.heads * square_) * sizeof(float),
                  MemoryKind::workspace);
  }

  CpuContext& context_;
  AttentionSizes s_;
  std::int64_t square_;
  std::int64_t row_;  // floats from token to token in queries, keys, values
};

}  // namespace

std::unique_ptr<LayerKernel> make_attention(CpuContext& context, const SelfAttention& spec,
                                            const Shape& in) {
  return std::make_unique<AttentionKernel>(context, reference::sizes_of(spec, in));
}

}  // namespace hetpipe
