// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "kernels/element.h"

// A double of what the CUDA device calls: the runtime's functions, cuBLASLt's, and cuDNN as plans
// that compute their graphs on the host. Linked with the device's own sources it makes a module
// that runs without a GPU. Own kernels run in their emulator (kernels/cuda/own/simt.h); two GPUs
// are there. What a GPU would leave to chance is shown here:
//   * a stream's work runs in a thread of its own, later than it was asked for;
//   * memory is exact-sized, NaN in every element type when it is taken and when it is given back;
//   * host memory that is not locked is read and written before a copy returns, as CUDA does, and
//     locked memory when its turn comes;
//   * an engine of cuDNN may be capturing a stream in another thread: memory is refused to threads
//     that have not said that they work beside that;
//   * an address that is not inside one block, a kernel on a GPU that is not in use, a factor that
//     is less aligned than its algorithm was asked for, a workspace that is not there: refused.
//
//   * what waits for all that a GPU does (code that comes there when it is needed first, memory
//   that
//     is taken outside of pools, memory of the host that is locked) is refused while a link of
//     NCCL's is open there, whose kernels may wait for another rank that does the same.
//
// HETPIPE_DOUBLE_EXCLUSIVE=FOLDER: its GPUs are in the mode EXCLUSIVE_PROCESS: a second process of
// those that name the folder makes no context on one.
//
// HETPIPE_DOUBLE_ENGINES: cuDNN recommends several engines for a graph ("several"), of which some
// want more workspace than there is, do not run after all, or make zeros of NaNs; or none ("none");
// else one that does it.
//
// HETPIPE_DOUBLE_NO_IPC: memory is not shared with other processes, as in some containers.
//
// HETPIPE_DOUBLE_CARD="8.6 24e9": cards of this compute capability and so many bytes, whose work is
// counted and checked but never done, so that a step of any size takes no time and memory that
// nobody writes takes none. What comes from such a card means nothing.
namespace hetpipe::cuda::stand_in {

// So many at most; HETPIPE_DOUBLE_GPUS of them are there, or two.
inline constexpr int kGpus = 8;

// What HETPIPE_DOUBLE_CARD says, asked anew in each call.
struct DescribedCard {
  int major = 9, minor = 0;
  std::size_t memory = std::size_t{1} << 30;  // bytes
  bool works = true;
};
DescribedCard card();

// The runtime's last error of this thread, and what cudaGetErrorString says of it.
cudaError_t fail(cudaError_t status, const std::string& why);
int gpu_in_use();  // of the calling thread, for work there, which makes a context

// SystemError where the stream's GPU is not in use. What `work` throws comes out of the stream's
// events.
void enqueue(cudaStream_t stream, std::function<void()> work);

// SystemError unless [memory, memory + bytes) lies in one block of a GPU's memory, at a multiple of
// `alignment`.
void check_inside(const char* what, const void* memory, std::size_t bytes, std::size_t alignment);
// The same of a workspace, which need not be there where no bytes are wanted; filled with NaN.
void use_workspace(cudaStream_t stream, void* memory, std::size_t bytes);

std::size_t memory_used(int gpu);

// Of the GPU in use, or of one.
void need_code(const std::string& what, bool own_kernel = false);  // SystemError where refused
cudaError_t wait_for_all_work(const std::string& what);
void link_opens(int gpu);
void link_closes(int gpu);

// What has been asked for since the program began, on all streams: launches of our own kernels,
// plans of cuDNN, products of cuBLASLt, copies and fills of memory. Programs ask by way of
// hetpipe_double_count, and of which GPUs this process has a context, bit by bit, by way of
// hetpipe_double_contexts, which the module exports.
enum class Counted { kernel, plan, product, copy };
inline constexpr int kCounted = 4;
void count(Counted what);

// Between T and double, element by element; tf32 rounds what is multiplied to 10 bits of mantissa.
double element(const void* memory, ElementType type, std::int64_t i);
void set_element(void* memory, ElementType type, std::int64_t i, double value);
double rounded_factor(double value, Precision precision);

}  // namespace hetpipe::cuda::stand_in
