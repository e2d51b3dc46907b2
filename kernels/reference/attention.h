// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/layer.h"

// Scaled dot-product self-attention (Vaswani et al. 2017, equation 1) of x (N, T, 3F), in which a
// row holds its query, key and value of F each, head h in columns [h*d, (h + 1)*d) of each, d =
// F/heads. Sums run in double, in one order.
namespace hetpipe::reference {

struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t features = 0;  // F, of the output
  std::int64_t heads = 1;
  bool causal = true;

  std::int64_t width() const { return features / heads; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(width())); }
  std::int64_t seen(std::int64_t t) const { return causal ? t + 1 : tokens; }  // by token t
};
inline AttentionSizes sizes_of(const SelfAttention& a, const Shape& in) {
  return {in[0], in[1], in[2] / 3, a.heads, a.causal};
}

// softmax: (T, T) of one head, row t's in [0, seen(t)), zero beyond.
template <class T>
void attention_head_forward(const AttentionSizes& s, const T* q, const T* k, const T* v, T* softmax,
                            T* y) {
  const std::int64_t row = 3 * s.features, d = s.width();
  std::vector<double> scores(static_cast<std::size_t>(s.tokens));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::int64_t seen = s.seen(t);
    double largest = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < d; ++c)
        sum += static_cast<double>(q[t * row + c]) * static_cast<double>(k[j * row + c]);
      scores[static_cast<std::size_t>(j)] = sum * s.scale();
      largest = j == 0 ? sum * s.scale() : std::max(largest, sum * s.scale());
    }
    double sum = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double& score = scores[static_cast<std::size_t>(j)];
      sum += score = std::exp(score - largest);
    }
    T* p = softmax + t * s.tokens;
    for (std::int64_t j = 0; j < seen; ++j)
      p[j] = static_cast<T>(scores[static_cast<std::size_t>(j)] / sum);
    std::fill(p + seen, p + s.tokens, T{0});
    for (std::int64_t c = 0; c < d; ++c) {
      double value = 0;
      for (std::int64_t j = 0; j < seen; ++j)
        value += static_cast<double>(p[j]) * static_cast<double>(v[j * row + c]);
      y[t * s.features + c] = static_cast<T>(value);
    }
  }
}

// With P the softmax: dv = Pᵀdy, dS = P(dP - sum_j P dP) of dP = dy·vᵀ, dq = dS·k/sqrt(d), dk =
// dSᵀ·q/sqrt(d).
template <class T>
void attention_head_backward(const AttentionSizes& s, const T* q, const T* k, const T* v,
                             const T* softmax, const T* dy, T* dq, T* dk, T* dv) {
  const std::int64_t row = 3 * s.features, d = s.width();
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  std::vector<double> key(at(s.tokens * d)), value(at(s.tokens * d)), ds(at(s.tokens));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    const std::int64_t seen = s.seen(t);
    const T* p = softmax + t * s.tokens;
    const T* gradient = dy + t * s.features;
    double mean = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < d; ++c) {
        sum += static_cast<double>(gradient[c]) * static_cast<double>(v[j * row + c]);
        value[at(j * d + c)] += static_cast<double>(p[j]) * static_cast<double>(gradient[c]);
      }
      ds[at(j)] = sum;
      mean += static_cast<double>(p[j]) * sum;
    }
    for (std::int64_t j = 0; j < seen; ++j)
      ds[at(j)] = static_cast<double>(p[j]) * (ds[at(j)] - mean) * s.scale();
    for (std::int64_t c = 0; c < d; ++c) {
      double query = 0;
      for (std::int64_t j = 0; j < seen; ++j) {
        query += ds[at(j)] * static_cast<double>(k[j * row + c]);
        key[at(j * d + c)] += ds[at(j)] * static_cast<double>(q[t * row + c]);
      }
      dq[t * row + c] = static_cast<T>(query);
    }
  }
  for (std::int64_t j = 0; j < s.tokens; ++j)
    for (std::int64_t c = 0; c < d; ++c) {
      dk[j * row + c] = static_cast<T>(key[at(j * d + c)]);
      dv[j * row + c] = static_cast<T>(value[at(j * d + c)]);
    }
}

// softmax (N, heads, T, T), or one head's (T, T) where `keep` is false.
template <class T>
void attention_forward(const AttentionSizes& s, const T* x, T* softmax, bool keep, T* y) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const T* q = x + n * s.tokens * 3 * s.features + h * s.width();
      T* own = keep ? softmax + (n * s.heads + h) * s.tokens * s.tokens : softmax;
      attention_head_forward(s, q, q + s.features, q + 2 * s.features, own,
                             y + n * s.tokens * s.features + h * s.width());
    }
}

template <class T>
void attention_backward(const AttentionSizes& s, const T* x, const T* softmax, const T* dy, T* dx) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t at = n * s.tokens * 3 * s.features + h * s.width();
      const T* q = x + at;
      T* dq = dx + at;
      attention_head_backward(s, q, q + s.features, q + 2 * s.features,
                              softmax + (n * s.heads + h) * s.tokens * s.tokens,
                              dy + n * s.tokens * s.features + h * s.width(), dq, dq + s.features,
                              dq + 2 * s.features);
    }
}

}  // namespace hetpipe::reference
