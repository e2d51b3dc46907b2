// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/image_loops.h"

#include <algorithm>

#include "kernels/cpu/loop_sums.h"

namespace hetpipe::loops {
namespace {

// Channels whose state is held in registers or the nearest cache.
constexpr std::int64_t kSideBySide = 64;

// body(first channel, how many) for all channels; the number is a constant where it can be one.
template <class Body>
inline __attribute__((always_inline)) void in_blocks(std::int64_t channels, const Body& body) {
  std::int64_t c = 0;
  for (; c + kSideBySide <= channels; c += kSideBySide) {
    body(c, std::integral_constant<std::int64_t, kSideBySide>());
  }
  for (; c + 16 <= channels; c += 16) body(c, std::integral_constant<std::int64_t, 16>());
  if (c < channels) body(c, channels - c);
}

// Before a loop over them that chooses: GCC unrolls short ones before it vectorises them.
#if defined(__GNUC__) && !defined(__clang__)
#define HETPIPE_SIDE_BY_SIDE _Pragma("omp simd")
#else
#define HETPIPE_SIDE_BY_SIDE
#endif

Reaches sorted_by_place(std::vector<std::vector<Reach>> places) {
  Reaches r;
  for (const std::vector<Reach>& place : places) {
    r.begin.push_back(r.all.size());
    r.all.insert(r.all.end(), place.begin(), place.end());
  }
  r.begin.push_back(r.all.size());
  return r;
}

}  // namespace

Reaches reaches_of(const WindowSide& side, std::int64_t extent) {
  std::vector<std::vector<Reach>> places(static_cast<std::size_t>(extent));
  for (std::int64_t p = 0; p < side.positions(extent); ++p)
    for (std::int64_t k = side.begin(p); k < side.end(p, extent); ++k)
      places[static_cast<std::size_t>(side.at(p, k))].push_back({.from = p, .tap = k});
  return sorted_by_place(std::move(places));
}

Reaches reaches_of(const std::vector<ResizePlace>& places, std::int64_t extent) {
  std::vector<std::vector<Reach>> reached(static_cast<std::size_t>(extent));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ResizePlace& p = places[i];
    const auto add = [&](std::int64_t to, float weight) {
      reached[static_cast<std::size_t>(to)].push_back(
          {.from = static_cast<std::int64_t>(i), .weight = weight});
    };
    if (p.low == p.high) {
      add(p.low, 1);
    } else {
      add(p.low, p.low_weight);
      if (p.high_weight != 0) add(p.high, p.high_weight);
    }
  }
  return sorted_by_place(std::move(reached));
}

HETPIPE_EVERY_WIDTH void max_pool_backward_row(float* __restrict dx, const float* __restrict dy,
                                               const std::uint8_t* __restrict winner,
                                               const Window& window, const Reaches& rows,
                                               const Reaches& columns, const Shape& out,
                                               std::int64_t row, std::int64_t width) {
  const std::int64_t channels = out[3];
  const Reach *const r0 = rows.first(row), *const r1 = rows.end(row);
  for (std::int64_t w = 0; w < width; ++w, dx += channels) {
    const Reach *const c0 = columns.first(w), *const c1 = columns.end(w);
    in_blocks(channels, [&](std::int64_t first, auto count) {
      float sums[kSideBySide] = {};
      for (const Reach* r = r0; r < r1; ++r)
        for (const Reach* c = c0; c < c1; ++c) {
          const std::int64_t from = (r->from * out[2] + c->from) * channels + first;
          const float* const gradient = dy + from;
          const std::uint8_t* const won = winner + from;
          const auto here = static_cast<std::uint8_t>(window.place(r->tap, c->tap));
          HETPIPE_SIDE_BY_SIDE
          for (std::int64_t k = 0; k < count; ++k) {
            const float g = gradient[k];
            sums[k] += won[k] == here ? g : 0.0f;
          }
        }
      for (std::int64_t k = 0; k < count; ++k) dx[first + k] = sums[k];
    });
  }
}

HETPIPE_EVERY_WIDTH void bilinear_row(float* __restrict y, const float* __restrict low,
                                      const float* __restrict high, const ResizePlace& row,
                                      const std::vector<ResizePlace>& columns,
                                      std::int64_t channels) {
  for (const ResizePlace& column : columns) {
    const float a = row.low_weight * column.low_weight, b = row.low_weight * column.high_weight;
    const float c = row.high_weight * column.low_weight, d = row.high_weight * column.high_weight;
    const float *const low0 = low + column.low * channels, *const low1 =
                                                               low + column.high * channels;
    const float *const high0 = high + column.low * channels, *const high1 =
                                                                 high + column.high * channels;
    for (std::int64_t k = 0; k < channels; ++k) {
      y[k] = (a * low0[k] + b * low1[k]) + (c * high0[k] + d * high1[k]);
    }
    y += channels;
  }
}

HETPIPE_EVERY_WIDTH void resize_backward_row(float* __restrict dx, const float* __restrict dy,
                                             const Reaches& rows, const Reaches& columns,
                                             std::int64_t row, std::int64_t width,
                                             std::int64_t out_width, std::int64_t channels,
                                             float* __restrict sum) {
  const std::int64_t line = out_width * channels;
  bool first = true;
  for (const Reach* r = rows.first(row); r < rows.end(row); ++r, first = false) {
    const float* const gradient = dy + r->from * line;
    const float weight = r->weight;
    if (first) {
      for (std::int64_t k = 0; k < line; ++k) sum[k] = weight * gradient[k];
    } else {
      for (std::int64_t k = 0; k < line; ++k) sum[k] += weight * gradient[k];
    }
  }
  if (first) std::fill_n(sum, line, 0.0f);
  for (std::int64_t w = 0; w < width; ++w, dx += channels) {
    const Reach *const c0 = columns.first(w), *const c1 = columns.end(w);
    if (c0 == c1) {
      std::fill_n(dx, channels, 0.0f);
      continue;
    }
    for (const Reach* c = c0; c < c1; ++c) {
      const float* const from = sum + c->from * channels;
      const float weight = c->weight;
      if (c == c0) {
        for (std::int64_t k = 0; k < channels; ++k) dx[k] = weight * from[k];
      } else {
        for (std::int64_t k = 0; k < channels; ++k) dx[k] += weight * from[k];
      }
    }
  }
}

HETPIPE_EVERY_WIDTH void window_sums(double* __restrict sums, const float* __restrict image,
                                     const std::int64_t* __restrict pixels, std::int64_t count,
                                     std::int64_t channels) {
  add_rows<1>({sums}, count, channels, [=](std::int64_t p, std::int64_t c) {
    return std::array<float, 1>{image[pixels[p] + c]};
  });
}

HETPIPE_EVERY_WIDTH void max_pool_row(float* __restrict y, std::uint8_t* __restrict winner,
                                      const float* __restrict image, const Window& window,
                                      const Shape& in, std::int64_t row) {
  const std::int64_t channels = in[3], columns = window.columns.positions(in[2]);
  const std::int64_t kh0 = window.rows.begin(row), kh1 = window.rows.end(row, in[1]);
  for (std::int64_t ow = 0; ow < columns; ++ow, y += channels) {
    const std::int64_t kw0 = window.columns.begin(ow), kw1 = window.columns.end(ow, in[2]);
    const float* const start =
        image + (window.rows.at(row, kh0) * in[2] + window.columns.at(ow, kw0)) * channels;
    const std::int64_t down = window.rows.dilation * in[2] * channels;
    const std::int64_t across = window.columns.dilation * channels;
    in_blocks(channels, [&](std::int64_t first, auto count) {
      float best[kSideBySide];
      std::int32_t place[kSideBySide];
      const float* line = start + first;
      for (std::int64_t k = 0; k < count; ++k) {
        best[k] = line[k];
        place[k] = static_cast<std::int32_t>(window.place(kh0, kw0));
      }
      for (std::int64_t kh = kh0; kh < kh1; ++kh, line += down) {
        const float* x = line;
        auto here = static_cast<std::int32_t>(window.place(kh, kw0));
        for (std::int64_t kw = kw0; kw < kw1; ++kw, x += across, ++here) {
          HETPIPE_SIDE_BY_SIDE
          for (std::int64_t k = 0; k < count; ++k) {
            const bool better = (x[k] > best[k]) | (x[k] != x[k]);  // a NaN wins
            best[k] = better ? x[k] : best[k];
            place[k] = better ? here : place[k];
          }
        }
      }
      for (std::int64_t k = 0; k < count; ++k) y[first + k] = best[k];
      if (winner == nullptr) return;
      std::uint8_t* const winners = winner + ow * channels + first;
      for (std::int64_t k = 0; k < count; ++k) winners[k] = static_cast<std::uint8_t>(place[k]);
    });
  }
}

HETPIPE_EVERY_WIDTH void window_maximum(float* __restrict y, std::int32_t* __restrict winner,
                                        const float* __restrict image, std::int64_t h0,
                                        std::int64_t h1, std::int64_t w0, std::int64_t w1,
                                        std::int64_t width, std::int64_t channels) {
  in_blocks(channels, [&](std::int64_t first, auto count) {
    float best[kSideBySide];
    std::int32_t place[kSideBySide];
    const float* const start = image + (h0 * width + w0) * channels + first;
    for (std::int64_t k = 0; k < count; ++k) {
      best[k] = start[k];
      place[k] = static_cast<std::int32_t>(h0 * width + w0);
    }
    for (std::int64_t h = h0; h < h1; ++h)
      for (std::int64_t w = w0; w < w1; ++w) {
        const float* const x = image + (h * width + w) * channels + first;
        const auto here = static_cast<std::int32_t>(h * width + w);
        HETPIPE_SIDE_BY_SIDE
        for (std::int64_t k = 0; k < count; ++k) {
          const bool better = (x[k] > best[k]) | (x[k] != x[k]);  // a NaN wins
          best[k] = better ? x[k] : best[k];
          place[k] = better ? here : place[k];
        }
      }
    for (std::int64_t k = 0; k < count; ++k) y[first + k] = best[k];
    if (winner == nullptr) return;
    for (std::int64_t k = 0; k < count; ++k) winner[first + k] = place[k];
  });
}

}  // namespace hetpipe::loops
