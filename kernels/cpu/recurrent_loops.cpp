// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/recurrent_loops.h"

#include "kernels/cpu/loops.h"
#include "kernels/pointwise_math.h"

namespace hetpipe::loops {
namespace {

inline __attribute__((always_inline)) float sigmoid(float x) {
  return 1.0f / (1.0f + pointwise::exp(-x));
}

}  // namespace

HETPIPE_EVERY_WIDTH void lstm_cell(std::int64_t hidden, float* __restrict gates,
                                   const float* __restrict before, float* __restrict cells,
                                   float* __restrict h) {
  float *i = gates, *f = gates + hidden, *g = gates + 2 * hidden, *o = gates + 3 * hidden;
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < 2 * hidden; ++k) i[k] = sigmoid(i[k]);
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) {
    g[k] = pointwise::tanh(g[k]);
    o[k] = sigmoid(o[k]);
  }
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) cells[k] = i[k] * g[k];
  if (before != nullptr) {
    HETPIPE_INDEPENDENT
    for (std::int64_t k = 0; k < hidden; ++k) cells[k] += f[k] * before[k];
  }
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) h[k] = o[k] * pointwise::tanh(cells[k]);
}

HETPIPE_EVERY_WIDTH void lstm_cell_gradient(std::int64_t hidden, const float* __restrict gates,
                                            const float* __restrict before,
                                            const float* __restrict cells,
                                            const float* __restrict dh, float* __restrict dc,
                                            float* __restrict dgates) {
  const float *i = gates, *f = gates + hidden, *g = gates + 2 * hidden, *o = gates + 3 * hidden;
  float *di = dgates, *df = dgates + hidden, *dg = dgates + 2 * hidden, *d_o = dgates + 3 * hidden;
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) {
    const float t = pointwise::tanh(cells[k]);
    const float d = dc[k] + dh[k] * o[k] * (1.0f - t * t);
    di[k] = d * g[k] * (i[k] * (1.0f - i[k]));
    df[k] = d * (f[k] * (1.0f - f[k]));  // times the cells before
    dg[k] = d * i[k] * (1.0f - g[k] * g[k]);
    d_o[k] = dh[k] * t * (o[k] * (1.0f - o[k]));
    dc[k] = d * f[k];
  }
  for (std::int64_t k = 0; k < hidden; ++k) df[k] *= before != nullptr ? before[k] : 0.0f;
}

HETPIPE_EVERY_WIDTH void gru_cell(std::int64_t hidden, float* __restrict gates,
                                  const float* __restrict state, const float* __restrict before,
                                  float* __restrict h) {
  float *r = gates, *z = gates + hidden, *n = gates + 2 * hidden;
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < 2 * hidden; ++k) r[k] = sigmoid(r[k] + state[k]);
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) {
    n[k] = pointwise::tanh(n[k] + r[k] * state[2 * hidden + k]);
    h[k] = (1.0f - z[k]) * n[k];
  }
  if (before == nullptr) return;
  for (std::int64_t k = 0; k < hidden; ++k) h[k] += z[k] * before[k];
}

HETPIPE_EVERY_WIDTH void gru_cell_gradient(std::int64_t hidden, const float* __restrict gates,
                                           const float* __restrict kept,
                                           const float* __restrict before, float* __restrict dh,
                                           float* __restrict da, float* __restrict db) {
  const float *r = gates, *z = gates + hidden, *n = gates + 2 * hidden;
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) {
    const float dn = dh[k] * (1.0f - z[k]) * (1.0f - n[k] * n[k]);
    const float dr = dn * kept[k] * (r[k] * (1.0f - r[k]));
    da[k] = dr;
    db[k] = dr;
    da[2 * hidden + k] = dn;
    db[2 * hidden + k] = dn * r[k];
  }
  HETPIPE_INDEPENDENT
  for (std::int64_t k = 0; k < hidden; ++k) {
    const float h = before != nullptr ? before[k] : 0.0f;
    const float dz = dh[k] * (h - n[k]) * (z[k] * (1.0f - z[k]));
    da[hidden + k] = dz;
    db[hidden + k] = dz;
    dh[k] *= z[k];
  }
}

}  // namespace hetpipe::loops
