// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/token_rows.h"

#include "kernels/cuda/own/reduce.h"

namespace hetpipe::cuda {
namespace {

constexpr int kDigits = 256;  // of a pass of the sort; as many threads, each with one of them
constexpr int kDigitBits = 8;
constexpr int kTile = 1024;  // rows that a block sorts

struct Keys {
  std::int32_t* tokens;
  std::int32_t* rows;
};

// Where things lie in the caller's memory.
struct Parts {
  Keys keys[2];
  std::int32_t* counts;  // (tiles, kDigits)
  std::int32_t* begin;

  Parts(std::int64_t rows, std::int64_t vocabulary, void* memory) {
    auto* next = static_cast<std::int32_t*>(memory);
    const auto take = [&](std::int64_t count) {
      std::int32_t* const taken = next;
      next += count;
      return taken;
    };
    for (Keys& k : keys) k = {take(rows), take(rows)};
    counts = take(tiles(rows) * kDigits);
    begin = take(vocabulary + 1);
  }
  static std::int64_t tiles(std::int64_t rows) { return (rows + kTile - 1) / kTile; }
};

HETPIPE_DEVICE int digit_of(std::int32_t token, int shift) {
  return token >> shift & (kDigits - 1);
}

HETPIPE_KERNEL void number_rows(std::int32_t rows, std::int32_t vocabulary, const float* tokens,
                                Keys to, std::int32_t* outside) {
  const std::int64_t row = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const std::int64_t token = token_of(tokens[row], vocabulary);
  if (token < 0) *outside = 1;
  to.tokens[row] = token < 0 ? vocabulary : static_cast<std::int32_t>(token);
  to.rows[row] = static_cast<std::int32_t>(row);
}

// body(k, digit of the tile's k-th key) for all of them in order, by every thread. Four digits are
// read at once.
template <class Body>
HETPIPE_DEVICE void for_digits(std::int32_t rows, const std::int32_t* tokens, int shift,
                               const Body& body) {
  static_assert(kTile == 4 * kDigits);
  HETPIPE_SHARED(words, std::uint32_t[kDigits]);
  const std::int64_t tile = std::int64_t{blockIdx.x} * kTile;
  const int own = static_cast<int>(threadIdx.x);
  const int keys = static_cast<int>(rows - tile < kTile ? rows - tile : kTile);
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k)
    if (4 * own + k < keys)
      word |= static_cast<std::uint32_t>(digit_of(tokens[tile + 4 * own + k], shift)) << 8 * k;
  words[own] = word;
  __syncthreads();
  for (int w = 0; 4 * w < keys; ++w) {
    const std::uint32_t four = words[w];
    HETPIPE_UNROLL
    for (int k = 0; k < 4; ++k)
      if (4 * w + k < keys) body(4 * w + k, static_cast<int>(four >> 8 * k & (kDigits - 1)));
  }
}

HETPIPE_KERNEL void count_digits(std::int32_t rows, const std::int32_t* tokens, int shift,
                                 std::int32_t* counts) {
  const int own = static_cast<int>(threadIdx.x);
  std::int32_t count = 0;
  for_digits(rows, tokens, shift, [&](int, int digit) { count += digit == own ? 1 : 0; });
  counts[std::int64_t{blockIdx.x} * kDigits + own] = count;
}

// Turns counts (tiles, kDigits) into places: where a tile's keys of a digit go. One block.
HETPIPE_KERNEL void place_digits(std::int64_t tiles, std::int32_t* counts) {
  HETPIPE_SHARED(totals, std::int32_t[kDigits]);
  const int own = static_cast<int>(threadIdx.x);
  std::int32_t total = 0;
  for (std::int64_t t = 0; t < tiles; ++t) total += counts[t * kDigits + own];
  totals[own] = total;
  __syncthreads();
  std::int32_t next = 0;
  for (int d = 0; d < own; ++d) next += totals[d];
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int32_t count = counts[t * kDigits + own];
    counts[t * kDigits + own] = next;
    next += count;
  }
}

HETPIPE_KERNEL void move_keys(std::int32_t rows, Keys from, int shift, const std::int32_t* places,
                              Keys to) {
  HETPIPE_SHARED(where, std::int32_t[kTile]);
  const int own = static_cast<int>(threadIdx.x);
  std::int32_t next = places[std::int64_t{blockIdx.x} * kDigits + own];
  for_digits(rows, from.tokens, shift, [&](int k, int digit) {
    if (digit == own) where[k] = next++;
  });
  __syncthreads();
  const std::int64_t tile = std::int64_t{blockIdx.x} * kTile;
  for (int k = own; k < kTile && tile + k < rows; k += kDigits) {
    to.tokens[where[k]] = from.tokens[tile + k];
    to.rows[where[k]] = from.rows[tile + k];
  }
}

// begin[v]: how many of the sorted tokens are smaller than v.
HETPIPE_KERNEL void find_begins(std::int32_t rows, std::int32_t vocabulary,
                                const std::int32_t* sorted, std::int32_t* begin) {
  const std::int64_t v = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (v > vocabulary) return;
  std::int32_t low = 0, high = rows;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    if (sorted[middle] < v) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  begin[v] = low;
}

}  // namespace

std::size_t token_rows_bytes(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t words = 4 * rows + Parts::tiles(rows) * kDigits + vocabulary + 1;
  return static_cast<std::size_t>(words) * sizeof(std::int32_t);
}

TokenRows rows_by_token(std::int64_t rows, std::int64_t vocabulary, const float* tokens,
                        std::int32_t* outside, void* memory, On on) {
  ensure(rows < INT32_MAX && vocabulary < INT32_MAX, "more tokens than 32 bits count");
  const Parts parts(rows, vocabulary, memory);
  const auto count = static_cast<std::int32_t>(rows), words = static_cast<std::int32_t>(vocabulary);
  const unsigned tiles = one_each(Parts::tiles(rows));
  const auto blocks = [](std::int64_t n) { return one_each((n + kThreads - 1) / kThreads); };
  launch(number_rows, blocks(rows), kThreads, on, count, words, tokens, parts.keys[0], outside);
  int now = 0;
  for (int shift = 0; vocabulary >> shift != 0; shift += kDigitBits, now = 1 - now) {
    const Keys& from = parts.keys[now];
    launch(count_digits, tiles, kDigits, on, count, from.tokens, shift, parts.counts);
    launch(place_digits, 1, kDigits, on, std::int64_t{tiles}, parts.counts);
    launch(move_keys, tiles, kDigits, on, count, from, shift, parts.counts, parts.keys[1 - now]);
  }
  launch(find_begins, blocks(vocabulary + 1), kThreads, on, count, words, parts.keys[now].tokens,
         parts.begin);
  return {parts.begin, parts.keys[now].rows};
}

}  // namespace hetpipe::cuda
