// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loops.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/loop_sums.h"
#include "kernels/damping.h"
#include "kernels/reference/pooling.h"

namespace hetpipe::loops {
namespace {

// Calls visit(output column, input offset, output offset, place) for every tap of output row `row`
// inside the image; offsets count floats.
template <class Visit>
void for_each_tap(const Window& window, const Shape& in, std::int64_t row, Visit visit) {
  const std::int64_t channels = in[3];
  const std::int64_t columns = window.columns.positions(in[2]);
  for (std::int64_t ow = 0; ow < columns; ++ow)
    for (std::int64_t kh = window.rows.begin(row); kh < window.rows.end(row, in[1]); ++kh)
      for (std::int64_t kw = window.columns.begin(ow); kw < window.columns.end(ow, in[2]); ++kw) {
        const std::int64_t h = window.rows.at(row, kh);
        const std::int64_t w = window.columns.at(ow, kw);
        visit((h * in[2] + w) * channels, ow * channels, window.place(kh, kw));
      }
}

}  // namespace

void fill(float* x, float value, std::int64_t count) { std::fill_n(x, count, value); }

HETPIPE_EVERY_WIDTH void add(float* y, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

HETPIPE_EVERY_WIDTH void sum(float* z, const float* x, const float* y, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) z[i] = x[i] + y[i];
}

HETPIPE_EVERY_WIDTH void scale(float* y, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] *= factor;
}

HETPIPE_EVERY_WIDTH void sgd(float* __restrict delta, const float* __restrict gradient,
                             const float* __restrict weights, float rate, float decay,
                             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + decay * weights[i];
    delta[i] = -(rate * g);
  }
}

HETPIPE_EVERY_WIDTH void sgd_momentum(float* __restrict delta, float* __restrict velocity,
                                      const float* __restrict gradient,
                                      const float* __restrict weights, const SgdOptions& options,
                                      std::int64_t count) {
  const SgdOptions o = options;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + o.weight_decay * weights[i];
    const float v = o.momentum * velocity[i] + g;
    velocity[i] = v;
    delta[i] = -(o.rate * (o.nesterov ? g + o.momentum * v : v));
  }
}

HETPIPE_EVERY_WIDTH void adam(float* __restrict delta, float* __restrict first,
                              float* __restrict second, const float* __restrict gradient,
                              const float* __restrict weights, const AdamStep& step,
                              std::int64_t count) {
  const AdamStep s = step;
  const float shrink = s.rate * s.decay;
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = s.decoupled ? gradient[i] : gradient[i] + s.decay * weights[i];
    const float m = s.beta1 * first[i] + s.rest1 * g;
    const float v = s.beta2 * second[i] + s.rest2 * (g * g);
    first[i] = m;
    second[i] = v;
    const float change = s.rate * s.direction(m, g) / (std::sqrt(v / s.bias2) + s.epsilon);
    delta[i] = -(s.decoupled ? change + shrink * weights[i] : change);
  }
}

HETPIPE_EVERY_WIDTH void rmsprop(float* __restrict delta, float* __restrict second,
                                 const float* __restrict gradient, const float* __restrict weights,
                                 const RmspropOptions& options, std::int64_t count) {
  const RmspropOptions o = options;
  const float rest = rest_of(o.alpha);
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i] + o.weight_decay * weights[i];
    const float v = o.alpha * second[i] + rest * (g * g);
    second[i] = v;
    delta[i] = -(o.rate * g / (std::sqrt(v) + o.epsilon));
  }
}

HETPIPE_EVERY_WIDTH void look_ahead(float* __restrict ahead, const float* __restrict weights,
                                    const float* __restrict x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) ahead[i] = weights[i] - factor * x[i];
}

HETPIPE_EVERY_WIDTH void look_ahead_adam(float* __restrict ahead, const float* __restrict weights,
                                         const float* __restrict first,
                                         const float* __restrict second, const AdamStep& step,
                                         float factor, std::int64_t count) {
  const AdamStep s = step;
  const float shrink = factor * s.decay;
  for (std::int64_t i = 0; i < count; ++i) {
    const float change =
        factor * (first[i] / s.bias1) / (std::sqrt(second[i] / s.bias2) + s.epsilon);
    ahead[i] = weights[i] - (s.decoupled ? change + shrink * weights[i] : change);
  }
}

HETPIPE_EVERY_WIDTH void damp_along_rows(float* __restrict sums, const float* __restrict d,
                                         const float* __restrict v, std::int64_t rows,
                                         std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, d += columns) {
    float lanes[kDampLanes] = {};
    std::int64_t c = 0;
    for (; c + kDampLanes <= columns; c += kDampLanes) {
      for (std::int64_t l = 0; l < kDampLanes; ++l) lanes[l] += d[c + l] * v[c + l];
    }
    for (std::int64_t l = 0; c < columns; ++c, ++l) lanes[l] += d[c] * v[c];
    for (std::int64_t half = kDampLanes / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    sums[r] = lanes[0];
  }
}

HETPIPE_EVERY_WIDTH void damp_down_columns(float* __restrict sums, const float* __restrict d,
                                           const float* __restrict v, std::int64_t rows,
                                           std::int64_t columns, std::int64_t count) {
  constexpr std::int64_t kTile = 256;
  for (std::int64_t tile = 0; tile < count; tile += kTile) {
    const std::int64_t n = std::min(kTile, count - tile);
    float totals[kTile] = {};
    for (std::int64_t first = 0; first < rows; first += kDampRows) {
      float block[kTile] = {};
      for (std::int64_t r = first; r < std::min(rows, first + kDampRows); ++r) {
        const float* __restrict row = d + r * columns + tile;
        const float by = v[r];
        for (std::int64_t c = 0; c < n; ++c) block[c] += row[c] * by;
      }
      for (std::int64_t c = 0; c < n; ++c) totals[c] += block[c];
    }
    std::copy(totals, totals + n, sums + tile);
  }
}

HETPIPE_EVERY_WIDTH void damp_subtract(float* __restrict d, const float* __restrict of_row,
                                       const float* __restrict of_column, std::int64_t rows,
                                       std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, d += columns) {
    const float by = of_row[r];
    for (std::int64_t c = 0; c < columns; ++c) d[c] -= by * of_column[c];
  }
}

HETPIPE_EVERY_WIDTH void deviation_sums(double* __restrict sum, double* __restrict squares,
                                        const float* __restrict x, const float* __restrict origin,
                                        std::int64_t rows, std::int64_t channels) {
  add_rows<2>({sum, squares}, rows, channels, [=](std::int64_t r, std::int64_t c) {
    const float d = x[r * channels + c] - origin[c];
    return std::array<float, 2>{d, d * d};
  });
}

HETPIPE_EVERY_WIDTH void normalise(float* y, const float* x, const float* __restrict mean,
                                   const float* __restrict factor, const float* __restrict shift,
                                   std::int64_t rows, std::int64_t channels) {
  for (std::int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    HETPIPE_INDEPENDENT
    for (std::int64_t c = 0; c < channels; ++c) y[c] = (x[c] - mean[c]) * factor[c] + shift[c];
  }
}

HETPIPE_EVERY_WIDTH void gradient_sums(double* __restrict sum, double* __restrict products,
                                       const float* __restrict dy, const float* __restrict x,
                                       const float* __restrict mean, std::int64_t rows,
                                       std::int64_t channels) {
  add_rows<2>({sum, products}, rows, channels, [=](std::int64_t r, std::int64_t c) {
    const float g = dy[r * channels + c];
    return std::array<float, 2>{g, g * (x[r * channels + c] - mean[c])};
  });
}

HETPIPE_EVERY_WIDTH void normalise_backward(float* dx, const float* dy, const float* __restrict x,
                                            const float* __restrict mean,
                                            const float* __restrict factor,
                                            const float* __restrict shift,
                                            const float* __restrict slope, std::int64_t rows,
                                            std::int64_t channels) {
  for (std::int64_t r = 0; r < rows; ++r, x += channels, dx += channels, dy += channels) {
    HETPIPE_INDEPENDENT
    for (std::int64_t c = 0; c < channels; ++c) {
      dx[c] = factor[c] * (dy[c] - shift[c] - (x[c] - mean[c]) * slope[c]);
    }
  }
}

HETPIPE_EVERY_WIDTH void column_sums(double* __restrict sum, const float* __restrict x,
                                     std::int64_t rows, std::int64_t columns) {
  add_rows<1>({sum}, rows, columns, [=](std::int64_t r, std::int64_t c) {
    return std::array<float, 1>{x[r * columns + c]};
  });
}

HETPIPE_EVERY_WIDTH void add_to_rows(float* __restrict y, const float* __restrict x,
                                     std::int64_t rows, std::int64_t columns) {
  for (std::int64_t r = 0; r < rows; ++r, y += columns) {
    for (std::int64_t c = 0; c < columns; ++c) y[c] += x[c];
  }
}

void dropout_draw(std::uint8_t* kept, std::uint64_t key, float rate, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 4) {
    const std::uint64_t block = static_cast<std::uint64_t>(i) / 4;
    const PhiloxBlock bits = philox(
        key, {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
    const std::int64_t n = std::min<std::int64_t>(4, count - i);
    for (std::int64_t j = 0; j < n; ++j)
      kept[i + j] = uniform_float(bits[static_cast<std::size_t>(j)]) >= rate;
  }
}

HETPIPE_EVERY_WIDTH void dropout_apply(float* y, const float* x,
                                       const std::uint8_t* __restrict kept, float factor,
                                       std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    const float scaled = x[i] * factor;
    y[i] = kept[i] != 0 ? scaled : 0.0f;
  }
}

HETPIPE_EVERY_WIDTH void alpha_dropout_forward(float* y, const float* x,
                                               const std::uint8_t* __restrict kept,
                                               const AlphaDropoutMap& map, std::int64_t count) {
  const float scale = static_cast<float>(map.scale), shift = static_cast<float>(map.shift);
  const float dropped = static_cast<float>(map.dropped);
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    const float mapped = x[i] * scale + shift;
    y[i] = kept[i] != 0 ? mapped : dropped;
  }
}

HETPIPE_EVERY_WIDTH void transpose(float* __restrict to, const float* __restrict from,
                                   std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;  // a tile's lines of both sides stay in the nearest cache
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const std::int64_t r1 = std::min(rows, r0 + kTile);
      const std::int64_t c1 = std::min(columns, c0 + kTile);
      for (std::int64_t c = c0; c < c1; ++c)
        for (std::int64_t r = r0; r < r1; ++r) to[c * rows + r] = from[r * columns + c];
    }
}

HETPIPE_EVERY_WIDTH void turn_round(float* __restrict to, const float* __restrict from,
                                    std::int64_t outputs, std::int64_t inputs, std::int64_t taps,
                                    std::int64_t first, std::int64_t end) {
  constexpr std::int64_t kTile = 16;  // as in transpose
  for (std::int64_t o0 = 0; o0 < outputs; o0 += kTile) {
    const std::int64_t o1 = std::min(outputs, o0 + kTile);
    for (std::int64_t i = first; i < end; ++i) {
      for (std::int64_t o = o0; o < o1; ++o) {
        const float* const taken = from + (o * inputs + i) * taps + taps - 1;
        float* const put = to + (i * outputs + o) * taps;
        for (std::int64_t t = 0; t < taps; ++t) put[t] = taken[-t];
      }
    }
  }
}

HETPIPE_EVERY_WIDTH void average_pool_row(float* __restrict y, const float* __restrict image,
                                          const Window& window, const Shape& in, bool count_padding,
                                          std::int64_t row) {
  const std::int64_t channels = in[3];
  const std::int64_t columns = window.columns.positions(in[2]);
  std::fill_n(y, columns * channels, 0.0f);
  for_each_tap(window, in, row, [&](std::int64_t input, std::int64_t output, std::int64_t) {
    const float* __restrict x = image + input;
    float* __restrict sums = y + output;
    for (std::int64_t c = 0; c < channels; ++c) sums[c] += x[c];
  });
  for (std::int64_t ow = 0; ow < columns; ++ow) {
    const float area =
        static_cast<float>(reference::places_averaged(window, in, count_padding, row, ow));
    float* __restrict sums = y + ow * channels;
    for (std::int64_t c = 0; c < channels; ++c) sums[c] /= area;
  }
}

void average_pool_backward(float* __restrict dx, const float* __restrict dy, const Window& window,
                           const Shape& in, bool count_padding) {
  const std::int64_t channels = in[3];
  const std::int64_t rows = window.rows.positions(in[1]);
  const std::int64_t row_length = window.columns.positions(in[2]) * channels;
  std::fill_n(dx, in[1] * in[2] * channels, 0.0f);
  for (std::int64_t oh = 0; oh < rows; ++oh) {
    for_each_tap(window, in, oh, [&](std::int64_t input, std::int64_t output, std::int64_t) {
      float* __restrict gradient = dx + input;
      const float* __restrict from = dy + oh * row_length + output;
      const float area = static_cast<float>(
          reference::places_averaged(window, in, count_padding, oh, output / channels));
      for (std::int64_t c = 0; c < channels; ++c) gradient[c] += from[c] / area;
    });
  }
}

void global_average_forward(float* __restrict y, const float* __restrict x, std::int64_t pixels,
                            std::int64_t channels) {
  std::vector<double> sums(static_cast<std::size_t>(channels));
  column_sums(sums.data(), x, pixels, channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    y[c] = static_cast<float>(sums[static_cast<std::size_t>(c)] / static_cast<double>(pixels));
  }
}

HETPIPE_EVERY_WIDTH void global_average_backward(float* __restrict dx, const float* __restrict dy,
                                                 std::int64_t pixels, std::int64_t channels) {
  for (std::int64_t p = 0; p < pixels; ++p)
    for (std::int64_t c = 0; c < channels; ++c)
      dx[p * channels + c] = dy[c] / static_cast<float>(pixels);
}

}  // namespace hetpipe::loops
