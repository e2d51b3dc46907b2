// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include "kernels/cuda/own/stream.h"

// The layer between the sources of our own kernels and their compilers. nvcc, or clang as a
// compiler of CUDA, builds them for GPUs; any other compiler builds the very same sources against
// an emulator that runs them on the host (tests/cuda/simt), so that they are tested, under
// sanitizers too, where there is no GPU.
//
//   HETPIPE_KERNEL              a kernel: returns void, takes values and device pointers
//   HETPIPE_DEVICE              a function that kernels call
//   HETPIPE_SHARED(name, type)  shared memory of the block, aligned for 16 bytes, garbage at first;
//                               of types without constructors: float and integers, not Bf16 or Fp16
//   HETPIPE_UNROLL              before a loop of a constant number of rounds
//   load_word<Word>(p), store_word(p, word)
//                               uint4, uint2, ...: one access, p being aligned for it
//   launch(kernel, blocks, threads, stream, arguments...)
//
// and CUDA's own names: threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp,
// __shfl_*_sync, __ballot_sync, __any_sync, __all_sync, atomicAdd of integers, __ldg, rsqrtf.
#ifdef __CUDACC__
#include "kernels/cuda/check.h"

#define HETPIPE_KERNEL __global__
#ifdef __clang__
#define HETPIPE_DEVICE __device__ __forceinline__  // it would call what several places use
#else
#define HETPIPE_DEVICE __device__ inline
#endif
// Attributes where both nvcc and clang take them.
#define HETPIPE_SHARED(name, ...) \
  __attribute__((aligned(16))) __shared__ std::type_identity_t<__VA_ARGS__> name
#define HETPIPE_UNROLL _Pragma("unroll")

namespace hetpipe::cuda {

template <class Word>
__device__ Word load_word(const void* from) {
  return *static_cast<const Word*>(from);
}
template <class Word>
__device__ void store_word(void* to, const Word& word) {
  *static_cast<Word*>(to) = word;
}

// SystemError where CUDA refuses the launch; a grid without blocks is refused.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, On on,
            std::type_identity_t<Parameters>... arguments) {
  kernel<<<blocks, threads, 0, on.stream>>>(arguments...);
  check(cudaGetLastError(), "while a kernel was launched", on.where);
}

}  // namespace hetpipe::cuda
#else
// In the include path of targets that link the emulator.
#include "simt_host.h"
#endif
