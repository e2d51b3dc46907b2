// SPDX-License-Identifier: Apache-2.0
// Which code has come to which GPU of the double, and what waits for all that a GPU does.
#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/own_kernels.h"
#include "tests/cuda/double/double.h"

namespace hetpipe::cuda {
namespace {

struct Gpu {
  std::set<std::string> code;
  bool all_own_kernels = false;
  int links = 0;  // of NCCL's, open
};
std::mutex code_mutex;
std::array<Gpu, stand_in::kGpus> known_of;  // under it

const char all_of_them = 0;  // whose address stands for all own kernels

}  // namespace

std::vector<const void*> own_kernels() { return {&all_of_them}; }

namespace stand_in {

cudaError_t wait_for_all_work(const std::string& what) {
  const int gpu = gpu_in_use();
  const std::lock_guard lock(code_mutex);
  if (known_of[static_cast<std::size_t>(gpu)].links == 0) return cudaSuccess;
  return fail(
      cudaErrorLaunchFailure,
      format("%s waits for all kernels of GPU %d, of which those of NCCL may wait for a rank "
             "that waits likewise",
             what.c_str(), gpu));
}

void need_code(const std::string& what, bool own_kernel) {
  {
    const std::lock_guard lock(code_mutex);
    Gpu& gpu = known_of[static_cast<std::size_t>(gpu_in_use())];
    if (own_kernel && gpu.all_own_kernels) return;
    if (!gpu.code.insert(what).second) return;
  }
  if (wait_for_all_work("the code of " + what) == cudaSuccess) return;
  cudaGetLastError();
  throw SystemError("CUDA: " + std::string(cudaGetErrorString(cudaErrorLaunchFailure)));
}

void link_opens(int gpu) {
  const std::lock_guard lock(code_mutex);
  ++known_of[static_cast<std::size_t>(gpu)].links;
}
void link_closes(int gpu) {
  const std::lock_guard lock(code_mutex);
  --known_of[static_cast<std::size_t>(gpu)].links;
}

}  // namespace stand_in
}  // namespace hetpipe::cuda

using namespace hetpipe::cuda::stand_in;

extern "C" cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  if (kernel != &hetpipe::cuda::all_of_them) {
    return fail(cudaErrorInvalidValue, "a kernel that the double does not list");
  }
  *attributes = {};
  if (const cudaError_t status = wait_for_all_work("the code of all kernels");
      status != cudaSuccess) {
    return status;
  }
  const int gpu = gpu_in_use();
  const std::lock_guard lock(hetpipe::cuda::code_mutex);
  hetpipe::cuda::known_of[static_cast<std::size_t>(gpu)].all_own_kernels = true;
  return cudaSuccess;
}
