// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Moves, reductions, softmax and cumulative sums of kernels/algebra.h on activations of T: float,
// Bf16 or Fp16. Which elements belong to which is in lists that the host makes (device memory
// here).
namespace hetpipe::cuda {

// Element e has the entries [starts[e], starts[e + 1]) of `entries`, places in a sample of another
// tensor.
struct PlaceLists {
  const std::int32_t* starts = nullptr;
  const std::int32_t* entries = nullptr;
  std::int64_t elements = 0;  // of a sample, that have lists
  std::int64_t others = 0;    // of a sample of the other tensor
};

// y[n, e] = factor * the sum of x[n, entries of e].
template <class T>
void gather_sums(const PlaceLists& lists, const T* x, float factor, std::int64_t samples, T* y,
                 On on);
// y[e] = the sum of x[n, entries of e] over all samples.
template <class T>
void gather_sums_of_samples(const PlaceLists& lists, const T* x, std::int64_t samples, float* y,
                            On on);

// Elements of a sample's output that come from one tensor: y[to[i]] = x[from[i]]; x is a sample's
// (`by_sample` elements on from one to the next), or floats that are the same for all.
template <class T>
void place_elements(const std::int32_t* to, const std::int32_t* from, std::int64_t count,
                    const T* x, std::int64_t by_sample, std::int64_t samples,
                    std::int64_t output_elements, T* y, On on);
template <class T>
void place_floats(const std::int32_t* to, const std::int32_t* from, std::int64_t count,
                  const float* x, std::int64_t samples, std::int64_t output_elements, T* y, On on);
template <class T>
void fill_elements(T* y, float value, std::int64_t count, On on);

enum class Best : std::uint8_t { maximum, minimum, first_maximum, first_minimum };
// y[n, e] = the largest or smallest of x[n, entries of e]; NaN where one is.
template <class T>
void gather_best(const PlaceLists& lists, Best best, const T* x, std::int64_t samples, T* y, On on);
// dx[n, entries of e] = dy[n, e] for those that are the best, in equal parts, or for the first; no
// element has two lists, and those that have none are left alone.
template <class T>
void scatter_to_best(const PlaceLists& lists, Best best, const T* x, const T* dy,
                     std::int64_t samples, T* dx, On on);

// Rows of `features`; dx may be dy.
template <class T>
void softmax_forward(bool logarithm, std::int64_t rows, std::int64_t features, const T* x, T* y,
                     On on);
template <class T>
void softmax_backward(bool logarithm, std::int64_t rows, std::int64_t features, const T* y,
                      const T* dy, T* dx, On on);

// Along the middle of (outer, places, features), from the end where `from_end`.
template <class T>
void cumulative_sum(std::int64_t outer, std::int64_t places, std::int64_t features, bool from_end,
                    const T* x, T* y, On on);

}  // namespace hetpipe::cuda
