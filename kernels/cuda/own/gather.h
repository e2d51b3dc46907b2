// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Fills, maxima, softmax and cumulative sums of kernels/algebra.h on activations of T: float,
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

template <class T>
void fill_elements(T* y, float value, std::int64_t count, On on);

enum class Best : std::uint8_t { maximum, minimum, first_maximum, first_minimum };
// y[n, e] = the largest or smallest of x[n, entries of e]; NaN where one is.
template <class T>
void gather_best(const PlaceLists& lists, Best best, const T* x, std::int64_t samples, T* y, On on);
// shares[n, k] = what entry k of e's list gets of dy[n, e]: those that are the best have equal
// parts, or the first has it; the others 0. `entries` of all lists in a sample.
template <class T>
void shares_of_best(const PlaceLists& lists, Best best, const T* x, const T* dy,
                    std::int64_t entries, std::int64_t samples, float* shares, On on);

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
