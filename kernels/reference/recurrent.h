// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/layer.h"
#include "kernels/reference/lstm.h"

// LSTM and GRU as PyTorch defines them, over x (N, T, in) from a zero state. With
// a = weight_ih x + bias_ih and b = weight_hh h' + bias_hh, h' the state before:
//   LSTM: i, f, g, o = a + b: lstm.h
//   GRU:  r, z = sigmoid(a + b); n = tanh(a_n + r * b_n); h = (1 - z) * n + z * h'
// Sums run in double, in one order.
namespace hetpipe::reference {

struct RecurrentSizes {
  std::int64_t batch, tokens, in, hidden;
  bool gru, reverse;

  RecurrentSizes(const Recurrent& r, const Shape& shape)
      : batch(shape[0]),
        tokens(shape[1]),
        in(shape[2]),
        hidden(r.hidden),
        gru(r.kind == Recurrent::Kind::gru),
        reverse(r.reverse) {}
  std::int64_t gates() const { return (gru ? 3 : 4) * hidden; }
  std::int64_t rows() const { return batch * tokens; }
  // The token of step s, from the first step to the last; that of the step before it.
  std::int64_t token(std::int64_t step) const { return reverse ? tokens - 1 - step : step; }
  std::int64_t before(std::int64_t row) const { return reverse ? row + 1 : row - 1; }
};

// One row, one step. gates (3H): a on the way in, r, z, n on the way out. state (3H): b; its last
// third is kept for backward. before: h', or null for zeros.
template <class T>
void gru_cell(std::int64_t hidden, T* gates, const T* state, const T* before, T* h) {
  const auto sigmoid = [](T x) {
    return static_cast<T>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
  };
  T *r = gates, *z = gates + hidden, *n = gates + 2 * hidden;
  for (std::int64_t k = 0; k < hidden; ++k) {
    r[k] = sigmoid(r[k] + state[k]);
    z[k] = sigmoid(z[k] + state[hidden + k]);
    n[k] = std::tanh(n[k] + r[k] * state[2 * hidden + k]);
    h[k] = (1 - z[k]) * n[k] + (before != nullptr ? z[k] * before[k] : T{0});
  }
}

// One row, one step back. kept (H): b_n. dh: the gradient of h on the way in, the part of it that
// goes to h' beside the gates on the way out. da (3H): of a; db (3H): of b.
template <class T>
void gru_cell_gradient(std::int64_t hidden, const T* gates, const T* kept, const T* before, T* dh,
                       T* da, T* db) {
  const T *r = gates, *z = gates + hidden, *n = gates + 2 * hidden;
  for (std::int64_t k = 0; k < hidden; ++k) {
    const T dn = dh[k] * (1 - z[k]) * (1 - n[k] * n[k]);
    const T dz = dh[k] * ((before != nullptr ? before[k] : T{0}) - n[k]) * (z[k] * (1 - z[k]));
    const T dr = dn * kept[k] * (r[k] * (1 - r[k]));
    da[k] = db[k] = dr;
    da[hidden + k] = db[hidden + k] = dz;
    da[2 * hidden + k] = dn;
    db[2 * hidden + k] = dn * r[k];
    dh[k] *= z[k];
  }
}

// sums (gates) = bias + weight (gates, count) row; bias and row may be null.
template <class T>
void gate_sums(std::int64_t gates, std::int64_t count, const T* row, const T* weight, const T* bias,
               T* sums) {
  for (std::int64_t g = 0; g < gates; ++g) {
    double sum = bias != nullptr ? static_cast<double>(bias[g]) : 0;
    for (std::int64_t i = 0; row != nullptr && i < count; ++i)
      sum += static_cast<double>(row[i]) * static_cast<double>(weight[g * count + i]);
    sums[g] = static_cast<T>(sum);
  }
}

// gates (N, T, G*H) and kept (N, T, H), the cells of an LSTM or b_n of a GRU, serve backward.
template <class T>
void recurrent_forward(const RecurrentSizes& s, const T* x, const T* weight_ih, const T* weight_hh,
                       const T* bias_ih, const T* bias_hh, T* gates, T* kept, T* y) {
  std::vector<T> state(static_cast<std::size_t>(s.gates()));
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t step = 0; step < s.tokens; ++step) {
      const std::int64_t r = n * s.tokens + s.token(step), prior = s.before(r);
      const T* before = step == 0 ? nullptr : y + prior * s.hidden;
      T* own = gates + r * s.gates();
      gate_sums(s.gates(), s.in, x + r * s.in, weight_ih, bias_ih, own);
      gate_sums(s.gates(), s.hidden, before, weight_hh, bias_hh, state.data());
      if (s.gru) {
        gru_cell(s.hidden, own, state.data(), before, y + r * s.hidden);
        std::copy_n(state.data() + 2 * s.hidden, s.hidden, kept + r * s.hidden);
        continue;
      }
      for (std::int64_t g = 0; g < s.gates(); ++g) own[g] += state[static_cast<std::size_t>(g)];
      lstm_cell(s.hidden, own, step == 0 ? nullptr : kept + prior * s.hidden, kept + r * s.hidden,
                y + r * s.hidden);
    }
}

// da and db (N, T, G*H), the gradients of a and b, from which those of x, weights and biases follow
// as linear layers'. An LSTM's are equal: db may be da.
template <class T>
void recurrent_gate_gradients(const RecurrentSizes& s, const T* weight_hh, const T* gates,
                              const T* kept, const T* y, const T* dy, T* da, T* db) {
  const auto hidden = static_cast<std::size_t>(s.hidden);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    std::vector<T> dh(hidden), dc(hidden), beside(hidden);
    for (std::int64_t step = s.tokens - 1; step >= 0; --step) {
      const std::int64_t r = n * s.tokens + s.token(step), prior = s.before(r);
      const T* after = db + (s.reverse ? r - 1 : r + 1) * s.gates();
      for (std::size_t k = 0; k < hidden; ++k) {
        double sum = static_cast<double>(dy[r * s.hidden + static_cast<std::int64_t>(k)]) +
                     static_cast<double>(beside[k]);
        for (std::int64_t g = 0; step + 1 < s.tokens && g < s.gates(); ++g)
          sum += static_cast<double>(after[g]) *
                 static_cast<double>(weight_hh[g * s.hidden + static_cast<std::int64_t>(k)]);
        dh[k] = static_cast<T>(sum);
      }
      if (s.gru) {
        gru_cell_gradient(s.hidden, gates + r * s.gates(), kept + r * s.hidden,
                          step == 0 ? nullptr : y + prior * s.hidden, dh.data(), da + r * s.gates(),
                          db + r * s.gates());
        beside = dh;
      } else {
        lstm_cell_gradient(s.hidden, gates + r * s.gates(),
                           step == 0 ? nullptr : kept + prior * s.hidden, kept + r * s.hidden,
                           dh.data(), dc.data(), da + r * s.gates());
        if (db != da) std::copy_n(da + r * s.gates(), s.gates(), db + r * s.gates());
      }
    }
  }
}

// dweight_hh (G*H, H): the sum over rows that have one before them of db · (h of that row)ᵀ.
template <class T>
void recurrent_hidden_gradient(const RecurrentSizes& s, const T* y, const T* db, T* dweight) {
  for (std::int64_t g = 0; g < s.gates(); ++g)
    for (std::int64_t k = 0; k < s.hidden; ++k) {
      double sum = 0;
      for (std::int64_t r = 0; r < s.rows(); ++r) {
        if (r % s.tokens == s.token(0)) continue;
        sum += static_cast<double>(db[r * s.gates() + g]) *
               static_cast<double>(y[s.before(r) * s.hidden + k]);
      }
      dweight[g * s.hidden + k] = static_cast<T>(sum);
    }
}

}  // namespace hetpipe::reference
