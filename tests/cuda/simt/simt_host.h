// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/own/stream.h"

// CUDA's execution model on the host, for tests of kernel sources without a GPU. Blocks run one
// after another; the threads of a block are fibers that switch at barriers and at warp operations,
// and nowhere else. What a GPU would leave to chance is a SimtFailure here: a barrier that not all
// threads of the block reach, or reach at different places; a warp operation that a lane of its
// mask does not take part in, or another one; a lane that is read without taking part; a word that
// is not aligned; a launch out of CUDA's limits. Shared memory is poisoned (0xff: NaN, -1) for
// every block. Kernels that lack a barrier give other results under another order of threads: tests
// run both.
//
// Threads of the host that launch at the same time wait for one another.

#define HETPIPE_KERNEL
#define HETPIPE_DEVICE inline
#define HETPIPE_SHARED(name, ...)                                  \
  static ::hetpipe::cuda::SharedMemory<__VA_ARGS__> name##_memory; \
  auto& name = name##_memory.of_this_block()
#define HETPIPE_UNROLL
#define __launch_bounds__(...)

namespace hetpipe::cuda {

class SimtFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Where launches go, if not to be run at once: a double of CUDA's streams takes them. Null: at
// once. `kernel`: its address.
using LaunchQueue = void (*)(cudaStream_t stream, const void* kernel, std::function<void()> launch);
void set_launch_queue(LaunchQueue queue);

enum class SimtOrder { ascending, descending };
// Of the blocks of a grid and the threads of a block; ascending unless set.
void set_simt_order(SimtOrder order);
SimtOrder simt_order();

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT: as CUDA's
      : x(x_), y(y_), z(z_) {}
};

// A launch as something else than the emulator takes it: by the kernel's address.
struct Argument {
  const void* place;
  std::size_t bytes;
};
struct KernelCall {
  const void* kernel;
  std::span<const Argument> arguments;
  dim3 blocks, threads;
};
using KernelRunner = void (*)(const KernelCall& call);
// What runs kernels instead of the emulator (tests/cuda/ptx); null: the emulator. What it throws is
// a SimtFailure to whoever launched.
void set_kernel_runner(KernelRunner runner);

// Of the fiber that runs.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace simt {

enum class Warp { sync, shuffle, ballot };
// Waits for the lanes of `mask`; returns what lane `source` gave, or the ballot.
std::uint64_t warp_exchange(Warp operation, unsigned mask, std::uint64_t value, unsigned source,
                            const std::source_location& where);
unsigned lane();

// Counts the blocks that have run.
extern std::uint64_t block_serial;

void run(const KernelCall& call, const std::function<void()>& body,
         const std::source_location& where);
void enqueue(cudaStream_t stream, const void* kernel, std::function<void()> launch);

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const std::source_location& where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_exchange(Warp::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace simt

// Poisoned when a block touches it first.
template <class T>
class SharedMemory {
 public:
  T& of_this_block() {
    if (block_ != simt::block_serial) {
      std::memset(&value_, 0xff, sizeof value_);
      block_ = simt::block_serial;
    }
    return value_;
  }

 private:
  static_assert(std::is_trivially_default_constructible_v<T> && std::is_trivially_copyable_v<T>);
  std::uint64_t block_ = 0;
  alignas(16) T value_;
};

using Where = std::source_location;

void __syncthreads(const Where& where = Where::current());
inline void __syncwarp(unsigned mask = ~0u, const Where& where = Where::current()) {
  simt::warp_exchange(simt::Warp::sync, mask, 0, simt::lane(), where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              const Where& where = Where::current()) {
  const unsigned inside = static_cast<unsigned>(width) - 1;
  return simt::shuffle(mask, value,
                       (simt::lane() & ~inside) | (static_cast<unsigned>(source) & inside), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 const Where& where = Where::current()) {
  const unsigned at = simt::lane() & (static_cast<unsigned>(width) - 1);
  return simt::shuffle(mask, value, at >= delta ? simt::lane() - delta : simt::lane(), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   const Where& where = Where::current()) {
  const unsigned at = simt::lane() & (static_cast<unsigned>(width) - 1);
  const bool inside = at + delta < static_cast<unsigned>(width);
  return simt::shuffle(mask, value, inside ? simt::lane() + delta : simt::lane(), where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize,
                  const Where& where = Where::current()) {
  const unsigned source = simt::lane() ^ static_cast<unsigned>(lanes);
  const unsigned last = simt::lane() | (static_cast<unsigned>(width) - 1);
  return simt::shuffle(mask, value, source <= last ? source : simt::lane(), where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  return static_cast<unsigned>(
      simt::warp_exchange(simt::Warp::ballot, mask, predicate != 0, simt::lane(), where));
}
inline int __any_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, const Where& where = Where::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
// A GPU would fault on a place that is not aligned.
void check_aligned(const void* place, std::size_t bytes);
template <class Word>
Word load_word(const void* from) {
  check_aligned(from, alignof(Word));
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}
template <class Word>
void store_word(void* to, const Word& word) {
  check_aligned(to, alignof(Word));
  std::memcpy(to, &word, sizeof word);
}

template <class T>
T __ldg(const T* place) {
  return *place;
}
// Integers alone: sums of floats would depend on the order of arrival.
template <class T>
requires std::is_integral_v<T> T atomicAdd(T* place, std::type_identity_t<T> value) {
  const T old = *place;
  *place = old + value;
  return old;
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

template <class... Parameters>
void launch(void (*kernel)(Parameters...), dim3 blocks, dim3 threads, On on,
            std::type_identity_t<Parameters>... arguments) {
  const void* const address = reinterpret_cast<const void*>(kernel);
  simt::enqueue(on.stream, address, [=, where = on.where] {
    const std::array<Argument, sizeof...(Parameters)> values{
        Argument{&arguments, sizeof arguments}...};
    simt::run(
        {address, values, blocks, threads}, [&] { kernel(arguments...); }, where);
  });
}

}  // namespace hetpipe::cuda
