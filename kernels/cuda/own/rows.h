// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/reduce.h"

// Work on the rows of a matrix, each by a team of threads: a warp for short rows, so that a block
// takes eight, else the whole block. A row in packs, of up to 1024 elements (warp) or 8192 (block),
// is held: read once and kept in registers over several passes. A longer one, and one whose
// elements move singly, is read again in each, mostly from a cache.
namespace hetpipe::cuda {

inline constexpr int kRowThreads = 256;
inline constexpr std::int64_t kHeld = 32;  // elements of a row that a thread can keep

// The row of this thread's team; beyond the last for the last block's spare warps.
template <int kTeam>
HETPIPE_DEVICE std::int64_t team_row() {
  return static_cast<std::int64_t>(blockIdx.x) * (kRowThreads / kTeam) +
         static_cast<int>(threadIdx.x) / kTeam;
}

// How a team of kTeam walks a row: its threads take packs of V in turn.
template <int V, int kTeam, bool held>
struct RowForm {
  // body(p, first) for each pack of this thread, the p-th; `first` is its first element. What body
  // keeps at p of a held row stays in registers.
  template <class Body>
  HETPIPE_DEVICE void for_packs(std::int64_t count, const Body& body) const {
    const int lane = static_cast<int>(threadIdx.x % kTeam);
    if constexpr (held) {
      HETPIPE_UNROLL
      for (int p = 0; p < kHeld / V; ++p) {
        const int first = (p * kTeam + lane) * V;
        if (first < count) body(p, static_cast<std::int64_t>(first));
      }
    } else {
      for (std::int64_t first = lane * V; first < count; first += kTeam * V) body(0, first);
    }
  }
};

// A thread's packs of a row: kept by read() where the row is held, else read whenever asked for.
template <class T, int V, bool held>
struct RowPacks {
  const T* row;
  Pack<T, V> kept[held ? kHeld / V : 1]{};

  HETPIPE_DEVICE explicit RowPacks(const T* from) : row(from) {}
  HETPIPE_DEVICE void read(int p, std::int64_t first) {
    if constexpr (held) kept[p] = load_pack<V>(row + first);
  }
  HETPIPE_DEVICE Pack<T, V> get(int p, std::int64_t first) const {
    if constexpr (held) {
      return kept[p];
    } else {
      return load_pack<V>(row + first);
    }
  }
};

// work(form, row) by a team for each row.
template <int V, int kTeam, bool held, class Work>
HETPIPE_KERNEL __launch_bounds__(kRowThreads, 3) void row_work(Work work, std::int64_t rows) {
  const std::int64_t row = team_row<kTeam>();
  if (row < rows) work(RowForm<V, kTeam, held>{}, row);
}

template <int V, class Work>
void launch_rows_of(std::int64_t rows, std::int64_t count, const Work& work, On on) {
  constexpr std::int64_t kTogether = kRowThreads / kWarp;
  const unsigned warps = one_each((rows + kTogether - 1) / kTogether);
  constexpr bool held = V > 1;
  if (count <= kHeld * kWarp) {
    launch(row_work<V, kWarp, held, Work>, warps, kRowThreads, on, work, rows);
  } else if (held && count <= kHeld * kRowThreads) {
    launch(row_work<V, kRowThreads, held, Work>, one_each(rows), kRowThreads, on, work, rows);
  } else {
    launch(row_work<V, kRowThreads, false, Work>, one_each(rows), kRowThreads, on, work, rows);
  }
}

// For rows of `count` elements; packs: whether all that work touches moves in packs of T.
template <class T, class Work>
void launch_rows(std::int64_t rows, std::int64_t count, bool packs, const Work& work, On on) {
  if (packs) {
    launch_rows_of<kPack<T>>(rows, count, work, on);
  } else {
    launch_rows_of<1>(rows, count, work, on);
  }
}

}  // namespace hetpipe::cuda
