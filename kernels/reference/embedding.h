// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/error.h"

// Embeddings: y[r] = weight[token r] of tokens (N, T) = rows r, weight (vocabulary, features); and
// positions, y[n, t] = x[n, t] + weight[t]. Sums run in double, in the order of the rows.
namespace hetpipe::reference {

template <class T>
std::int64_t token_of(T id, std::int64_t vocabulary) {
  ensure(id >= 0 && id < static_cast<T>(vocabulary), "token outside [0, vocabulary)");
  return static_cast<std::int64_t>(id);
}

template <class T>
void embedding_forward(std::int64_t rows, std::int64_t vocabulary, std::int64_t features,
                       const T* tokens, const T* weight, T* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::copy_n(weight + token_of(tokens[r], vocabulary) * features, features, y + r * features);
}

// The rows of each token, in their order: token v has rows[begin[v]..begin[v + 1]).
struct TokenRows {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> rows;
};

template <class T>
TokenRows rows_by_token(std::int64_t rows, std::int64_t vocabulary, const T* tokens) {
  TokenRows found;
  found.begin.assign(static_cast<std::size_t>(vocabulary + 1), 0);
  for (std::int64_t r = 0; r < rows; ++r)
    ++found.begin[static_cast<std::size_t>(token_of(tokens[r], vocabulary) + 1)];
  for (std::size_t v = 1; v < found.begin.size(); ++v) found.begin[v] += found.begin[v - 1];
  std::vector<std::int64_t> next(found.begin);
  found.rows.resize(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto v = static_cast<std::size_t>(token_of(tokens[r], vocabulary));
    found.rows[static_cast<std::size_t>(next[v]++)] = r;
  }
  return found;
}

// dweight of tokens [first, end): the sum of dy over the rows of each.
template <class T>
void embedding_weight_gradient(std::int64_t features, const TokenRows& of, std::int64_t first,
                               std::int64_t end, const T* dy, T* dweight) {
  std::vector<double> sum(static_cast<std::size_t>(features));
  for (std::int64_t v = first; v < end; ++v) {
    std::fill(sum.begin(), sum.end(), 0.0);
    const auto token = static_cast<std::size_t>(v);
    for (std::int64_t k = of.begin[token]; k < of.begin[token + 1]; ++k) {
      const T* row = dy + of.rows[static_cast<std::size_t>(k)] * features;
      for (std::size_t f = 0; f < sum.size(); ++f) sum[f] += static_cast<double>(row[f]);
    }
    std::transform(sum.begin(), sum.end(), dweight + v * features,
                   [](double s) { return static_cast<T>(s); });
  }
}

// x, y (batch, count) with count = T*F; both may be one array.
template <class T>
void position_forward(std::int64_t batch, std::int64_t count, const T* x, const T* weight, T* y) {
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t e = 0; e < count; ++e) y[n * count + e] = x[n * count + e] + weight[e];
}

// Elements [first, end) of dweight, which are those of all positions; unused positions get 0.
template <class T>
void position_weight_gradient(std::int64_t batch, std::int64_t count, std::int64_t first,
                              std::int64_t end, const T* dy, T* dweight) {
  for (std::int64_t e = first; e < end; ++e) {
    double sum = 0;
    for (std::int64_t n = 0; e < count && n < batch; ++n)
      sum += static_cast<double>(dy[n * count + e]);
    dweight[e] = static_cast<T>(sum);
  }
}

}  // namespace hetpipe::reference
