// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/strided.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"

namespace hetpipe::cuda {
namespace {

// The loops' numbers are below 2^31 each: their divisions are of 32 bits.
template <class From, class To>
struct CopyStrided {
  StridedCopy c;
  const From* x;
  To* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / c.elements;
    auto rest = static_cast<std::uint32_t>(i - sample * c.elements);
    std::int64_t from = sample * c.from.by_sample + c.from.offset;
    std::int64_t to = sample * c.to.by_sample + c.to.offset;
    std::int64_t from_entry = 0, to_entry = 0;
    for (int j = c.loop_count - 1; j >= 0; --j) {
      const auto extent = static_cast<std::uint32_t>(c.extents[j]);
      const std::int64_t index = rest % extent;
      rest /= extent;
      from += index * c.from.strides[j];
      to += index * c.to.strides[j];
      if (c.from.table != nullptr) from_entry += index * c.from.table_strides[j];
      if (c.to.table != nullptr) to_entry += index * c.to.table_strides[j];
    }
    if (c.from.table != nullptr) from += c.from.table[from_entry];
    if (c.to.table != nullptr) to += c.to.table[to_entry];
    y[to] = static_cast<To>(static_cast<float>(x[from]));
  }
};

// Every step-th of the terms of element e from `first` on, over samples [sample, sample + samples).
template <class T>
HETPIPE_DEVICE float sum_of_reads(const Reads& reads, std::int64_t sample, std::int64_t samples,
                                  std::int64_t e, std::int64_t first, std::int64_t step) {
  CompensatedSum sum;
  for (int p = 0; p < reads.count; ++p) {
    const ReadPart& part = reads.parts[p];
    const std::int64_t begin = part.starts[e], terms = part.starts[e + 1] - begin;
    for (std::int64_t k = first; k < samples * terms; k += step) {
      const std::int64_t at = (sample + k / terms) * part.others + part.entries[begin + k % terms];
      sum.add(part.floats ? static_cast<const float*>(part.x)[at]
                          : static_cast<float>(static_cast<const T*>(part.x)[at]));
    }
  }
  return reads.factor * sum.sum;
}

// y[i] is element i % elements, of the samples from i / elements on.
template <class T, class Out>
struct SumReadsEach {
  Reads reads;
  std::int64_t samples;
  bool adds;
  Out* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const float before = adds ? static_cast<float>(y[i]) : 0.0f;
    y[i] = static_cast<Out>(
        before + sum_of_reads<T>(reads, i / reads.elements, samples, i % reads.elements, 0, 1));
  }
};

constexpr int kReadTeam = 128;  // threads that share a long list

template <class T, class Out>
HETPIPE_KERNEL void sum_reads_kernel(Reads reads, std::int64_t samples, bool adds, Out* y,
                                     std::int64_t count) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    float part[1] = {sum_of_reads<T>(reads, i / reads.elements, samples, i % reads.elements,
                                     threadIdx.x, kReadTeam)};
    team_reduce<kReadTeam, 1>(part, Plus{});
    if (threadIdx.x == 0) {
      y[i] = static_cast<Out>((adds ? static_cast<float>(y[i]) : 0.0f) + part[0]);
    }
    __syncthreads();
  }
}

template <class T, class Out>
void add_reads(const Reads& reads, std::int64_t samples, bool adds, Out* y, std::int64_t count,
               On on) {
  if (count == 0) return;
  if (!reads.many) return each<1>(SumReadsEach<T, Out>{reads, samples, adds, y}, count, on);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(count, kMostBlocks));
  launch(sum_reads_kernel<T, Out>, blocks, kReadTeam, on, reads, samples, adds, y, count);
}

}  // namespace

template <class From, class To>
void strided_copy(const StridedCopy& copy, const From* x, std::int64_t samples, To* y, On on) {
  ensure(copy.elements <= INT32_MAX, "a sample's view has fewer than 2^31 elements");
  each<1>(CopyStrided<From, To>{copy, x, y}, samples * copy.elements, on);
}

template <class T>
void sum_reads(const Reads& reads, std::int64_t samples, T* y, On on) {
  add_reads<T, T>(reads, 1, false, y, samples * reads.elements, on);
}
template <class T>
void sum_reads_of_samples(const Reads& reads, std::int64_t samples, bool adds, float* y, On on) {
  add_reads<T, float>(reads, samples, adds, y, reads.elements, on);
}

#define HETPIPE_STRIDED_COPY(From, To) \
  template void strided_copy(const StridedCopy&, const From*, std::int64_t, To*, On);
HETPIPE_STRIDED_COPY(float, float)
HETPIPE_STRIDED_COPY(float, Bf16)
HETPIPE_STRIDED_COPY(float, Fp16)
HETPIPE_STRIDED_COPY(Bf16, Bf16)
HETPIPE_STRIDED_COPY(Fp16, Fp16)

#define HETPIPE_SUM_READS(T)                                   \
  template void sum_reads(const Reads&, std::int64_t, T*, On); \
  template void sum_reads_of_samples<T>(const Reads&, std::int64_t, bool, float*, On);
HETPIPE_SUM_READS(float)
HETPIPE_SUM_READS(Bf16)
HETPIPE_SUM_READS(Fp16)

}  // namespace hetpipe::cuda
