// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/layer.h"

// LSTM (Hochreiter & Schmidhuber 1997, with forget gates) over x (N, T, in) from a zero state, as
// PyTorch defines it: gates i, f, g, o = x·weight_input + h·weight_hidden + bias, c = f*c' + i*g, h
// = o*tanh(c). weight_input (in, 4H), weight_hidden (H, 4H), bias (4H), y (N, T, H) = h. Sums run
// in double, in one order.
namespace hetpipe::reference {

struct LstmSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t in = 0;
  std::int64_t hidden = 0;

  std::int64_t gates() const { return 4 * hidden; }
  std::int64_t rows() const { return batch * tokens; }
};
inline LstmSizes sizes_of(const Lstm& l, const Shape& in) {
  return {in[0], in[1], in[2], l.hidden};
}

// One row, one step. gates (4H): sums on the way in, i, f, g, o on the way out. before: the cells
// of the step before, or null.
template <class T>
void lstm_cell(std::int64_t hidden, T* gates, const T* before, T* cells, T* h) {
  const auto sigmoid = [](T x) {
    return static_cast<T>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
  };
  T *i = gates, *f = gates + hidden, *g = gates + 2 * hidden, *o = gates + 3 * hidden;
  for (std::int64_t k = 0; k < hidden; ++k) {
    i[k] = sigmoid(i[k]);
    f[k] = sigmoid(f[k]);
    g[k] = std::tanh(g[k]);
    o[k] = sigmoid(o[k]);
    cells[k] = (before != nullptr ? f[k] * before[k] : T{0}) + i[k] * g[k];
    h[k] = o[k] * std::tanh(cells[k]);
  }
}

// One row, one step back. dh: the gradient of h. dc: that of the cells from the step after on the
// way in, that for the step before on the way out. dgates (4H): of the sums.
template <class T>
void lstm_cell_gradient(std::int64_t hidden, const T* gates, const T* before, const T* cells,
                        const T* dh, T* dc, T* dgates) {
  const T *i = gates, *f = gates + hidden, *g = gates + 2 * hidden, *o = gates + 3 * hidden;
  for (std::int64_t k = 0; k < hidden; ++k) {
    const T t = std::tanh(cells[k]);
    const T d = dc[k] + dh[k] * o[k] * (1 - t * t);
    dgates[k] = d * g[k] * (i[k] * (1 - i[k]));
    dgates[hidden + k] = before != nullptr ? d * before[k] * (f[k] * (1 - f[k])) : T{0};
    dgates[2 * hidden + k] = d * i[k] * (1 - g[k] * g[k]);
    dgates[3 * hidden + k] = dh[k] * t * (o[k] * (1 - o[k]));
    dc[k] = d * f[k];
  }
}

// gates (N, T, 4H) and cells (N, T, H) are kept for backward.
template <class T>
void lstm_forward(const LstmSizes& s, const T* x, const T* weight_input, const T* weight_hidden,
                  const T* bias, T* gates, T* cells, T* y) {
  std::vector<double> sum(static_cast<std::size_t>(s.gates()));
  const auto add = [&](std::int64_t count, const T* row, const T* weight) {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::size_t g = 0; g < sum.size(); ++g)
        sum[g] += static_cast<double>(row[i]) * static_cast<double>(*weight++);
  };
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    const bool starts = r % s.tokens == 0;
    for (std::size_t g = 0; g < sum.size(); ++g) sum[g] = static_cast<double>(bias[g]);
    add(s.in, x + r * s.in, weight_input);
    if (!starts) add(s.hidden, y + (r - 1) * s.hidden, weight_hidden);
    T* own = gates + r * s.gates();
    for (std::size_t g = 0; g < sum.size(); ++g) own[g] = static_cast<T>(sum[g]);
    lstm_cell(s.hidden, own, starts ? nullptr : cells + (r - 1) * s.hidden, cells + r * s.hidden,
              y + r * s.hidden);
  }
}

// dgates (N, T, 4H), from which the gradients of x, weights and bias follow as a linear layer's.
template <class T>
void lstm_gate_gradients(const LstmSizes& s, const T* weight_hidden, const T* gates, const T* cells,
                         const T* dy, T* dgates) {
  const auto hidden = static_cast<std::size_t>(s.hidden);
  for (std::int64_t n = 0; n < s.batch; ++n) {
    std::vector<T> dh(hidden), dc(hidden);
    for (std::int64_t t = s.tokens - 1; t >= 0; --t) {
      const std::int64_t r = n * s.tokens + t;
      for (std::size_t k = 0; k < hidden; ++k) {
        double sum = static_cast<double>(dy[r * s.hidden + static_cast<std::int64_t>(k)]);
        const T* after = dgates + (r + 1) * s.gates();
        const T* weight = weight_hidden + static_cast<std::int64_t>(k) * s.gates();
        for (std::int64_t g = 0; t + 1 < s.tokens && g < s.gates(); ++g)
          sum += static_cast<double>(after[g]) * static_cast<double>(weight[g]);
        dh[k] = static_cast<T>(sum);
      }
      lstm_cell_gradient(s.hidden, gates + r * s.gates(),
                         t == 0 ? nullptr : cells + (r - 1) * s.hidden, cells + r * s.hidden,
                         dh.data(), dc.data(), dgates + r * s.gates());
    }
  }
}

// The sum over rows after a sample's first of (h of the row before)ᵀ·dgates.
template <class T>
void lstm_hidden_weight_gradient(const LstmSizes& s, const T* y, const T* dgates, T* dweight) {
  for (std::int64_t k = 0; k < s.hidden; ++k)
    for (std::int64_t g = 0; g < s.gates(); ++g) {
      double sum = 0;
      for (std::int64_t r = 0; r < s.rows(); ++r) {
        if (r % s.tokens == 0) continue;
        sum += static_cast<double>(y[(r - 1) * s.hidden + k]) *
               static_cast<double>(dgates[r * s.gates() + g]);
      }
      dweight[k * s.gates() + g] = static_cast<T>(sum);
    }
}

}  // namespace hetpipe::reference
