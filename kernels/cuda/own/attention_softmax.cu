// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/attention_softmax.h"

#include "kernels/cuda/own/rows.h"

namespace hetpipe::cuda {
namespace {

// Tokens that the token of a row sees.
HETPIPE_DEVICE std::int64_t seen_by(const AttentionRows& s, std::int64_t row) {
  return s.causal ? row % s.tokens + 1 : s.tokens;
}

template <class S, class T>
struct Softmax {
  AttentionRows s;
  const S* scores;
  T* probabilities;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t seen = seen_by(s, row);
    RowPacks<S, V, held> own(scores + row * s.tokens);
    form.for_packs(seen, [&](int p, std::int64_t first) { own.read(p, first); });
    float largest = -INFINITY;
    form.for_packs(seen, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      for (int v = 0; v < V; ++v)
        if (first + v < seen) largest = Larger{}(largest, static_cast<float>(pack.at[v]) * s.scale);
    });
    largest = team_reduce<kTeam>(largest, Larger{});
    float sum = 0;
    form.for_packs(seen, [&](int p, std::int64_t first) {
      const auto pack = own.get(p, first);
      for (int v = 0; v < V; ++v)
        if (first + v < seen) sum += expf(static_cast<float>(pack.at[v]) * s.scale - largest);
    });
    const float inverse = 1 / team_reduce<kTeam>(sum, Plus{});
    form.for_packs(s.tokens, [&](int p, std::int64_t first) {
      Pack<T, V> out{};
      if (first < seen) {
        const auto pack = own.get(p, first);
        for (int v = 0; v < V; ++v) {
          const float e = expf(static_cast<float>(pack.at[v]) * s.scale - largest);
          if (first + v < seen) out.at[v] = static_cast<T>(e * inverse);
        }
      }
      store_pack(probabilities + row * s.tokens + first, out);
    });
  }
};

template <class S, class T>
struct SoftmaxGradient {
  AttentionRows s;
  const T* probabilities;
  const S* dprobabilities;
  T* dscores;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const std::int64_t seen = seen_by(s, row);
    RowPacks<T, V, held> ps(probabilities + row * s.tokens);
    RowPacks<S, V, held> dps(dprobabilities + row * s.tokens);
    form.for_packs(seen, [&](int p, std::int64_t first) {
      ps.read(p, first);
      dps.read(p, first);
    });
    float sum = 0;
    form.for_packs(seen, [&](int p, std::int64_t first) {
      const auto a = ps.get(p, first);
      const auto b = dps.get(p, first);
      for (int v = 0; v < V; ++v)
        if (first + v < seen) sum += static_cast<float>(a.at[v]) * static_cast<float>(b.at[v]);
    });
    sum = team_reduce<kTeam>(sum, Plus{});
    form.for_packs(s.tokens, [&](int p, std::int64_t first) {
      Pack<T, V> out{};
      if (first < seen) {
        const auto a = ps.get(p, first);
        const auto b = dps.get(p, first);
        for (int v = 0; v < V; ++v) {
          const float d = static_cast<float>(b.at[v]) - sum;
          if (first + v < seen)
            out.at[v] = static_cast<T>(static_cast<float>(a.at[v]) * d * s.scale);
        }
      }
      store_pack(dscores + row * s.tokens + first, out);
    });
  }
};

}  // namespace

template <class S, class T>
void attention_softmax_forward(const AttentionRows& s, const S* scores, T* probabilities, On on) {
  launch_rows<T>(s.rows, s.tokens, moves_in_packs<T>(s.tokens, {scores, probabilities}),
                 Softmax<S, T>{s, scores, probabilities}, on);
}

template <class S, class T>
void attention_softmax_backward(const AttentionRows& s, const T* probabilities,
                                const S* dprobabilities, T* dscores, On on) {
  launch_rows<T>(s.rows, s.tokens,
                 moves_in_packs<T>(s.tokens, {probabilities, dprobabilities, dscores}),
                 SoftmaxGradient<S, T>{s, probabilities, dprobabilities, dscores}, on);
}

#define HETPIPE_ATTENTION_SOFTMAX(S, T)                                            \
  template void attention_softmax_forward(const AttentionRows&, const S*, T*, On); \
  template void attention_softmax_backward(const AttentionRows&, const T*, const S*, T*, On);
HETPIPE_ATTENTION_SOFTMAX(float, float)
HETPIPE_ATTENTION_SOFTMAX(float, Bf16)
HETPIPE_ATTENTION_SOFTMAX(float, Fp16)
HETPIPE_ATTENTION_SOFTMAX(Bf16, Bf16)
HETPIPE_ATTENTION_SOFTMAX(Fp16, Fp16)

}  // namespace hetpipe::cuda
