// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reference/algebra.h"

// Attention of kernels/algebra.h. Sums run in double, in one order.
namespace hetpipe::reference {

struct AttentionPlaces {
  Extents query, key, value, mask;

  explicit AttentionPlaces(const Attention& a)
      : query(places_of(a.query, {a.heads, a.queries, a.features})),
        key(places_of(a.key, {a.kv_heads, a.keys, a.features})),
        value(places_of(a.value, {a.kv_heads, a.keys, a.value_features})),
        mask(a.mask ? places_of(*a.mask, {a.heads, a.queries, a.keys}) : Extents{}) {}
};

inline std::int64_t keys_seen(const Attention& a, std::int64_t query) {
  return a.causal ? std::min(query + 1, a.keys) : a.keys;
}
inline double dropout_factor(const Attention& a) {
  return a.dropout > 0 ? 1.0 / (1.0 - static_cast<double>(a.dropout)) : 1.0;
}
inline std::int64_t kv_head(const Attention& a, std::int64_t head) {
  return head / (a.heads / a.kv_heads);
}

// softmax (N, heads, queries, keys), before dropout; a query that sees no key has zeros. kept: of
// its shape where dropout is at work, else null.
template <class T>
void attention_forward(const Attention& a, const Tensors<T>& t, const std::uint8_t* kept,
                       T* softmax, T* y) {
  const AttentionPlaces places(a);
  std::vector<double> scores(static_cast<std::size_t>(a.keys));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t q = 0; q < a.queries; ++q) {
        const std::int64_t row = ((n * a.heads + h) * a.queries + q) * a.keys;
        const std::int64_t g = kv_head(a, h), seen = keys_seen(a, q);
        double largest = -HUGE_VAL, sum = 0;
        for (std::int64_t k = 0; k < seen; ++k) {
          double score = 0;
          for (std::int64_t c = 0; c < a.features; ++c)
            score += t.read(a.query, n, places.query[at((h * a.queries + q) * a.features + c)]) *
                     t.read(a.key, n, places.key[at((g * a.keys + k) * a.features + c)]);
          score *= static_cast<double>(a.scale);
          if (a.mask)
            score += t.read(*a.mask, n, places.mask[at((h * a.queries + q) * a.keys + k)]);
          scores[at(k)] = score;
          largest = std::max(largest, score);
        }
        for (std::int64_t k = 0; k < seen; ++k)
          sum += scores[at(k)] = largest == -HUGE_VAL ? 0 : std::exp(scores[at(k)] - largest);
        for (std::int64_t k = 0; k < a.keys; ++k)
          softmax[row + k] = static_cast<T>(k < seen && sum != 0 ? scores[at(k)] / sum : 0.0);
        for (std::int64_t c = 0; c < a.value_features; ++c) {
          double value = 0;
          for (std::int64_t k = 0; k < seen; ++k)
            if (kept == nullptr || kept[row + k] != 0)
              value +=
                  static_cast<double>(softmax[row + k]) *
                  t.read(a.value, n, places.value[at((g * a.keys + k) * a.value_features + c)]);
          y[((n * a.queries + q) * a.heads + h) * a.value_features + c] =
              static_cast<T>(value * (kept == nullptr ? 1.0 : dropout_factor(a)));
        }
      }
}

// With P the softmax and M the dropout's mask and factor: dv = (M P)' dy, dP = M (dy v'),
// dS = P (dP - sum P dP), dq = scale dS k, dk = scale dS' q, and dS is the mask's.
template <class T>
void attention_backward(const Attention& a, const Tensors<T>& t, const std::uint8_t* kept,
                        const T* softmax, const T* dy, Gradients<T>& gradients) {
  const AttentionPlaces places(a);
  std::vector<double> ds(static_cast<std::size_t>(a.keys));
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::int64_t h = 0; h < a.heads; ++h)
      for (std::int64_t q = 0; q < a.queries; ++q) {
        const std::int64_t row = ((n * a.heads + h) * a.queries + q) * a.keys;
        const std::int64_t g = kv_head(a, h), seen = keys_seen(a, q);
        const T* const gradient = dy + ((n * a.queries + q) * a.heads + h) * a.value_features;
        double mean = 0;
        for (std::int64_t k = 0; k < seen; ++k) {
          const double p = static_cast<double>(softmax[row + k]);
          const double factor =
              kept == nullptr ? 1.0 : (kept[row + k] != 0 ? dropout_factor(a) : 0.0);
          double dp = 0;
          for (std::int64_t c = 0; c < a.value_features; ++c) {
            const std::int64_t v = places.value[at((g * a.keys + k) * a.value_features + c)];
            const double dyc = static_cast<double>(gradient[c]);
            gradients.add(a.value, n, v, factor * p * dyc);
            dp += dyc * t.read(a.value, n, v);
          }
          ds[at(k)] = factor * dp;
          mean += p * ds[at(k)];
        }
        for (std::int64_t k = 0; k < seen; ++k) {
          const double s = static_cast<double>(softmax[row + k]) * (ds[at(k)] - mean);
          const double scaled = static_cast<double>(a.scale) * s;
          if (a.mask)
            gradients.add(*a.mask, n, places.mask[at((h * a.queries + q) * a.keys + k)], s);
          for (std::int64_t c = 0; c < a.features; ++c) {
            const std::int64_t query = places.query[at((h * a.queries + q) * a.features + c)];
            const std::int64_t key = places.key[at((g * a.keys + k) * a.features + c)];
            gradients.add(a.query, n, query, scaled * t.read(a.key, n, key));
            gradients.add(a.key, n, key, scaled * t.read(a.query, n, query));
          }
        }
      }
}

}  // namespace hetpipe::reference
