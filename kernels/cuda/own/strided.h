// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Copies between tensors that are seen through strides (Operand of kernels/algebra.h), and sums of
// what several places of such a view give to one element. From and To are float, or the type of
// activations: float, Bf16 or Fp16.
namespace hetpipe::cuda {

inline constexpr int kMostStridedLoops = 12;

// Where a tensor's elements lie at the loops i_0, i_1, ... of a sample: offset + sum i_j *
// strides[j] + table[sum i_j * table_strides[j]], `by_sample` further for each sample. The table,
// where there is one, is device memory.
struct StridedPlaces {
  std::int64_t by_sample = 0;
  std::int64_t offset = 0;
  std::int64_t strides[kMostStridedLoops] = {};
  const std::int32_t* table = nullptr;
  std::int64_t table_strides[kMostStridedLoops] = {};
};
struct StridedCopy {
  int loop_count = 0;
  std::int64_t extents[kMostStridedLoops] = {};
  std::int64_t elements = 1;  // of the loops of a sample, below 2^31
  StridedPlaces from, to;
};

// y[to] = x[from] at all places of the loops of all samples; no two of `to` are one. Moves each
// element once, in the order of the loops.
template <class From, class To>
void strided_copy(const StridedCopy& copy, const From* x, std::int64_t samples, To* y, On on);

// Which places of up to kMostReads other tensors are added up in an element e: of part p the
// entries [starts[e], starts[e + 1]), places in a sample (`others` elements) of its tensor x, which
// is float where `floats`, else T. All but the numbers is device memory.
inline constexpr int kMostReads = 4;
struct ReadPart {
  const std::int32_t* starts = nullptr;
  const std::int32_t* entries = nullptr;
  const void* x = nullptr;
  bool floats = true;
  std::int64_t others = 0;
};
struct Reads {
  ReadPart parts[kMostReads];
  int count = 0;
  std::int64_t elements = 0;  // that have lists
  bool many = false;          // long lists: a block for each element
  float factor = 1;           // of the sums
};

// y[n, e] = the sum of e's entries in sample n.
template <class T>
void sum_reads(const Reads& reads, std::int64_t samples, T* y, On on);
// y[e] = the sum of e's entries in all samples, and of what is there where it `adds`.
template <class T>
void sum_reads_of_samples(const Reads& reads, std::int64_t samples, bool adds, float* y, On on);

}  // namespace hetpipe::cuda
