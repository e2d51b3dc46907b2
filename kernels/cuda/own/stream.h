// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

// CUDA's stream by name alone, for headers that are read where there is no toolkit.
struct CUstream_st;
using cudaStream_t = CUstream_st*;

namespace hetpipe::cuda {

// A stream, and where in our sources something is enqueued on it.
struct On {
  cudaStream_t stream;
  std::source_location where;

  On(cudaStream_t s, std::source_location w = std::source_location::current())  // NOLINT: implicit
      : stream(s), where(w) {}
};

}  // namespace hetpipe::cuda
