// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/own/reduce.h"

// Work down the columns of a row-major matrix (rows, columns): neighbouring threads take
// neighbouring packs of a row, so that reads are whole lines of memory; rows are split over the
// threads that lie behind one another in a block, and over sections that are blocks of their own.
// The layout follows from the shape alone, and so do the order of sums and their bits.
namespace hetpipe::cuda {

inline constexpr int kColumnThreads = 256;
// Neighbours that a thread treats. With the eight two-byte numbers of 16 bytes its sums alone took
// so many registers that two blocks filled a multiprocessor, too few to hide the memory's latency.
inline constexpr int kColumnPack = 4;

struct ColumnLayout {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  int across = 1;                 // threads side by side, each with a pack
  int down = 1;                   // rows that a block takes at a time
  std::int64_t tiles = 1;         // of columns
  std::int64_t sections = 1;      // of rows
  std::int64_t section_rows = 1;  // the last may have fewer

  unsigned blocks() const { return one_each(tiles * sections); }
};

// Sections have at least `rounds` rows for each thread, and there are about `blocks` blocks where
// the matrix is large: several for each multiprocessor, but few whose results remain to be summed.
inline ColumnLayout column_layout(std::int64_t rows, std::int64_t columns, int pack, int rounds,
                                  std::int64_t blocks) {
  ColumnLayout l{rows, columns};
  const std::int64_t packs = columns / pack;
  while (l.across < kWarp && l.across < packs) l.across *= 2;
  l.down = kColumnThreads / l.across;
  l.tiles = (packs + l.across - 1) / l.across;
  const std::int64_t fewest = std::int64_t{l.down} * rounds;
  const std::int64_t wanted = std::min((rows + fewest - 1) / fewest, blocks / l.tiles);
  l.section_rows = wanted > 1 ? (rows + wanted - 1) / wanted : rows;
  l.sections = (rows + l.section_rows - 1) / l.section_rows;
  return l;
}

// Where a thread works: its columns [column, column + V), its rows first, first + step, … < end.
struct ColumnPlace {
  std::int64_t column = 0;
  std::int64_t section = 0;
  std::int64_t first = 0;
  std::int64_t end = 0;
  int step = 1;

  HETPIPE_DEVICE ColumnPlace(const ColumnLayout& l, int pack) : step(l.down) {
    const int thread = static_cast<int>(threadIdx.x);
    column = (blockIdx.x % l.tiles * l.across + thread % l.across) * pack;
    section = blockIdx.x / l.tiles;
    first = section * l.section_rows + thread / l.across;
    end = (section + 1) * l.section_rows;
    if (end > l.rows) end = l.rows;
    if (column >= l.columns) first = end;
  }
};

// use(row, loaded) for each of a thread's rows; kGroup rows are loaded before the first is used.
// done() after each group.
template <int kGroup, class Load, class Use, class Done>
HETPIPE_DEVICE void for_rows(const ColumnPlace& place, const Load& load, const Use& use,
                             const Done& done) {
  for (std::int64_t row = place.first; row < place.end; row += kGroup * place.step) {
    decltype(load(row)) loaded[kGroup]{};
    HETPIPE_UNROLL
    for (int k = 0; k < kGroup; ++k)
      if (row + k * place.step < place.end) loaded[k] = load(row + k * place.step);
    HETPIPE_UNROLL
    for (int k = 0; k < kGroup; ++k)
      if (row + k * place.step < place.end) use(row + k * place.step, loaded[k]);
    done();
  }
}

// take(loaded) for load(k) of k = first, first + step, … < end, in this order; several are loaded
// before the first is taken.
template <class Load, class Take>
HETPIPE_DEVICE void for_strided(std::int64_t first, std::int64_t end, std::int64_t step,
                                const Load& load, const Take& take) {
  constexpr int kFlight = 4;
  for (std::int64_t k = first; k < end; k += kFlight * step) {
    decltype(load(k)) loaded[kFlight]{};
    HETPIPE_UNROLL
    for (int i = 0; i < kFlight; ++i)
      if (k + i * step < end) loaded[i] = load(k + i * step);
    HETPIPE_UNROLL
    for (int i = 0; i < kFlight; ++i)
      if (k + i * step < end) take(k + i * step, loaded[i]);
  }
}

// The sums over its rows of kSums terms per column. Terms says what they are:
//   kSums, kGroup                          how many; rows in flight
//   columns(column)                        what holds for a thread's columns, once
//   load(row, column)                      a row's elements
//   add(columns, row, loaded, sums)        their terms, added to sums[kSums][V]
// A group of rows is summed in float, groups are compensated, the threads of a block go in a tree.
// One section writes to the results first and second themselves, which may be null; several to
// partial (kSums, sections, columns), for column_totals.
template <int V, class Terms>
HETPIPE_KERNEL __launch_bounds__(kColumnThreads, 3) void column_terms(Terms terms, ColumnLayout l,
                                                                      float* partial, float* first,
                                                                      float* second) {
  constexpr int kSums = Terms::kSums;
  HETPIPE_SHARED(parts, float[kSums][V][kColumnThreads]);
  const ColumnPlace place(l, V);
  CompensatedSum sums[kSums][V];
  if (place.first < place.end) {
    const auto columns = terms.columns(place.column);
    float group[kSums][V] = {};
    for_rows<Terms::kGroup>(
        place, [&](std::int64_t row) { return terms.load(row, place.column); },
        [&](std::int64_t row, const auto& loaded) { terms.add(columns, row, loaded, group); },
        [&] {
          for (int s = 0; s < kSums; ++s)
            for (int v = 0; v < V; ++v) {
              sums[s][v].add(group[s][v]);
              group[s][v] = 0;
            }
        });
  }
  const int thread = static_cast<int>(threadIdx.x);
  for (int s = 0; s < kSums; ++s)
    for (int v = 0; v < V; ++v) parts[s][v][thread] = sums[s][v].sum;
  for (int half = l.down / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread >= half * l.across) continue;
    for (int s = 0; s < kSums; ++s)
      for (int v = 0; v < V; ++v) parts[s][v][thread] += parts[s][v][thread + half * l.across];
  }
  if (thread >= l.across || place.column >= l.columns) return;  // wrote these parts itself
  for (int s = 0; s < kSums; ++s) {
    float* to = s == 0 ? first : second;
    if (l.sections > 1) to = partial + (s * l.sections + place.section) * l.columns;
    if (to == nullptr) continue;
    for (int v = 0; v < V; ++v) to[place.column + v] = parts[s][v][thread];
  }
}

// Of blocks that sum over sections: 32 columns, 32 threads down each. There may be two such blocks,
// whose loads nobody else's hide: many threads, and several loads of each in flight.
inline constexpr int kTotalsDown = 32;
inline constexpr unsigned kTotalsThreads = kTotalsDown * kWarp;

// The sum over sections of partial (2 or 1, sections, columns).
template <int kSums>
HETPIPE_KERNEL __launch_bounds__(kTotalsThreads) void column_totals(std::int64_t sections,
                                                                    std::int64_t columns,
                                                                    const float* partial,
                                                                    float* first, float* second) {
  constexpr int kDown = kTotalsDown;
  HETPIPE_SHARED(parts, float[kDown][kWarp]);
  const int x = static_cast<int>(threadIdx.x) % kWarp, y = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + x;
  for (int s = 0; s < kSums; ++s) {
    CompensatedSum sum;
    if (column < columns) {
      for_strided(
          y, sections, kDown,
          [&](std::int64_t k) { return partial[(s * sections + k) * columns + column]; },
          [&](std::int64_t, float part) { sum.add(part); });
    }
    __syncthreads();
    parts[y][x] = sum.sum;
    __syncthreads();
    float* const to = s == 0 ? first : second;
    if (y > 0 || to == nullptr || column >= columns) continue;
    float total = parts[0][x];
    for (int k = 1; k < kDown; ++k) total += parts[k][x];
    to[column] = total;
  }
}

inline constexpr std::int64_t kSumBlocks = 1024;
inline constexpr int kSumRounds = 8;  // rows that a thread sums at least, where there are many

// Scratch memory that sum_columns needs for this shape, whatever the packs.
template <class T, int kSums>
std::size_t sum_columns_scratch_bytes(std::int64_t rows, std::int64_t columns) {
  std::int64_t sections = 1;
  for (const int pack : {1, kColumnPack}) {
    if (columns % pack != 0) continue;
    const ColumnLayout l = column_layout(rows, columns, pack, kSumRounds, kSumBlocks);
    sections = std::max(sections, l.sections);
  }
  return sections == 1 ? 0 : static_cast<std::size_t>(kSums * sections * columns) * sizeof(float);
}

template <int V, class Terms>
void sum_columns(std::int64_t rows, std::int64_t columns, const Terms& terms, void* scratch,
                 float* first, float* second, On on) {
  const ColumnLayout l = column_layout(rows, columns, V, kSumRounds, kSumBlocks);
  float* const partial = static_cast<float*>(scratch);
  launch(column_terms<V, Terms>, l.blocks(), kColumnThreads, on, terms, l, partial, first, second);
  if (l.sections == 1) return;
  const unsigned blocks = one_each((columns + kWarp - 1) / kWarp);
  launch(column_totals<Terms::kSums>, blocks, kTotalsThreads, on, l.sections, columns, partial,
         first, second);
}

}  // namespace hetpipe::cuda
