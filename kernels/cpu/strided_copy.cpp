// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/strided_copy.h"

#include <cstring>
#include <numeric>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/pointwise_loops.h"
#include "kernels/cpu/threads.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kCopyPiece = 1 << 14;  // elements worth a thread
constexpr std::int64_t kPlaneRows = 64;

using Four = float __attribute__((vector_size(16), aligned(4), may_alias));

// to[r * to_step + c] = from[c * from_step + r] of four by four.
inline void transpose_four(float* to, std::int64_t to_step, const float* from,
                           std::int64_t from_step) {
  const Four a = *reinterpret_cast<const Four*>(from);
  const Four b = *reinterpret_cast<const Four*>(from + from_step);
  const Four c = *reinterpret_cast<const Four*>(from + 2 * from_step);
  const Four d = *reinterpret_cast<const Four*>(from + 3 * from_step);
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *reinterpret_cast<Four*>(to) = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(to + to_step) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  *reinterpret_cast<Four*>(to + 2 * to_step) =
      __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  *reinterpret_cast<Four*>(to + 3 * to_step) =
      __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

// to[r * to_step + c] = from[c * from_step + r]
void transpose_plane(float* to, std::int64_t to_step, const float* from, std::int64_t from_step,
                     std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kTile = 16;  // a tile's lines of both sides stay in the nearest cache
  for (std::int64_t r0 = 0; r0 < rows; r0 += kTile)
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const std::int64_t r1 = std::min(rows, r0 + kTile), c1 = std::min(columns, c0 + kTile);
      std::int64_t r = r0;
      for (; r + 4 <= r1; r += 4) {
        std::int64_t c = c0;
        for (; c + 4 <= c1; c += 4)
          transpose_four(to + r * to_step + c, to_step, from + c * from_step + r, from_step);
        for (; c < c1; ++c)
          for (std::int64_t i = 0; i < 4; ++i)
            to[(r + i) * to_step + c] = from[c * from_step + r + i];
      }
      for (; r < r1; ++r)
        for (std::int64_t c = c0; c < c1; ++c) to[r * to_step + c] = from[c * from_step + r];
    }
}

// Lines of a plane. A call of memcpy costs as much as a short line.
HETPIPE_EVERY_WIDTH void copy_lines(float* __restrict to, std::int64_t to_step,
                                    const float* __restrict from, std::int64_t from_step,
                                    std::int64_t lines, std::int64_t count) {
  for (std::int64_t l = 0; l < lines; ++l, to += to_step, from += from_step) {
    if (count < 1024) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    }
  }
}

}  // namespace

StridedCopy::StridedCopy(const LoopNumbers& extents, const LoopNumbers& to,
                         const LoopNumbers& from) {
  // The output is written as much in order as it can be.
  std::vector<std::size_t> order(extents.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t i, std::size_t j) { return std::abs(to[i]) > std::abs(to[j]); });
  LoopNumbers sorted;
  std::vector<LoopNumbers> strides(2);
  for (const std::size_t i : order) {
    if (extents[i] == 1) continue;
    sorted.push_back(extents[i]);
    strides[0].push_back(to[i]);
    strides[1].push_back(from[i]);
  }
  loops_ = merged_loops(sorted, strides);
  const std::size_t last = loops_.extents.size() - 1;
  kind_ =
      loops_.strides[0][last] == 1 && loops_.strides[1][last] == 1 ? Kind::lines : Kind::strides;
  if (loops_.run() == 1) kind_ = Kind::strides;
  if (kind_ == Kind::lines || loops_.strides[0][last] != 1) return;
  for (std::size_t j = 0; j < last; ++j) {
    if (loops_.strides[1][j] != 1 || loops_.extents[j] < 4) continue;
    kind_ = Kind::tiles;
    rows_ = loops_.extents[j];
    columns_ = loops_.extents[last];
    row_stride_ = loops_.strides[0][j];
    column_stride_ = loops_.strides[1][last];
    for (const std::size_t taken : {last, j}) {
      const auto at = static_cast<std::ptrdiff_t>(taken);
      loops_.extents.erase(loops_.extents.begin() + at);
      for (LoopNumbers& s : loops_.strides) s.erase(s.begin() + at);
    }
    // The walker's innermost loop is a run: one plane.
    loops_.extents.push_back(1);
    for (LoopNumbers& s : loops_.strides) s.push_back(0);
    return;
  }
}

void StridedCopy::run(int threads, float* to, const float* from) const {
  kind_ == Kind::tiles ? tiles(threads, to, from) : lines(threads, to, from);
}

void StridedCopy::lines(int threads, float* to, const float* from) const {
  const std::int64_t run = loops_.run(), runs = loops_.runs();
  const std::int64_t to_stride = loops_.inner_stride(0), from_stride = loops_.inner_stride(1);
  const auto line = [&](float* t, const float* f, std::int64_t count) {
    if (kind_ == Kind::lines) {
      std::memcpy(t, f, static_cast<std::size_t>(count) * sizeof(float));
    } else if (to_stride == 1) {
      from_stride == 0 ? static_cast<void>(std::fill_n(t, count, *f))
                       : loops::load_strided(t, f, from_stride, count);
    } else {
      for (std::int64_t i = 0; i < count; ++i) t[i * to_stride] = f[i * from_stride];
    }
  };
  if (runs == 1) {
    parallel_for(threads, threads == 1 ? 1 : (run + kCopyPiece - 1) / kCopyPiece,
                 [&](std::int64_t p) {
                   const std::int64_t first = p * kCopyPiece;
                   line(to + first * to_stride, from + first * from_stride,
                        threads == 1 ? run : std::min(kCopyPiece, run - first));
                 });
    return;
  }
  if (kind_ == Kind::lines) {
    // The second loop from the end within a call, a piece of it at most.
    const std::size_t second = loops_.extents.size() - 2;
    const std::int64_t lines = loops_.extents[second];
    const std::int64_t most = std::min(lines, std::max<std::int64_t>(1, kCopyPiece / run));
    const std::int64_t pieces = (lines + most - 1) / most;
    const std::int64_t to_step = loops_.strides[0][second], from_step = loops_.strides[1][second];
    parallel_for(threads, runs / lines * pieces, [&](std::int64_t p) {
      const std::int64_t first = p % pieces * most;
      const LoopWalker walker(loops_, p / pieces * lines + first);
      copy_lines(to + walker.places()[0], to_step, from + walker.places()[1], from_step,
                 std::min(most, lines - first), run);
    });
    return;
  }
  const std::int64_t piece =
      threads == 1 ? runs : std::max<std::int64_t>(1, kCopyPiece / run);  // runs
  parallel_for(threads, (runs + piece - 1) / piece, [&](std::int64_t p) {
    const std::int64_t end = std::min(runs, (p + 1) * piece);
    LoopWalker walker(loops_, p * piece);
    for (std::int64_t r = p * piece; r < end; ++r, walker.next()) {
      line(to + walker.places()[0], from + walker.places()[1], run);
    }
  });
}

void StridedCopy::tiles(int threads, float* to, const float* from) const {
  const std::int64_t parts = (rows_ + kPlaneRows - 1) / kPlaneRows;
  parallel_for(threads, loops_.runs() * parts, [&](std::int64_t i) {
    const LoopWalker walker(loops_, i / parts);
    const std::int64_t first = i % parts * kPlaneRows;
    transpose_plane(to + walker.places()[0] + first * row_stride_, row_stride_,
                    from + walker.places()[1] + first, column_stride_,
                    std::min(kPlaneRows, rows_ - first), columns_);
  });
}

}  // namespace hetpipe
