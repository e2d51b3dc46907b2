// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/measure.h"

#include <algorithm>

#include "kernels/cuda/check.h"

namespace hetpipe::cuda {
namespace {

UniqueEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return UniqueEvent(event);
}

}  // namespace

Scratch::Scratch(const std::vector<std::size_t>& bytes, int byte) {
  for (const std::size_t size : bytes) {
    void* memory = nullptr;
    if (size > 0) {
      const cudaError_t status = cudaMalloc(&memory, size);
      if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();  // the next launch would report it again
        complete_ = false;
        memory = nullptr;
      } else {
        check(status, "taking memory to time kernels in");
      }
    }
    blocks_.emplace_back(memory);
    if (memory != nullptr) check(cudaMemset(memory, byte, size), "filling memory");
  }
  // The streams that time do not wait for the one that fills.
  check(cudaDeviceSynchronize(), "filling memory");
}

double median_seconds(int runs, const std::function<void(cudaStream_t)>& work) {
  cudaStream_t raw = nullptr;
  check(cudaStreamCreateWithFlags(&raw, cudaStreamNonBlocking), "making a stream");
  const UniqueStream stream(raw);
  const UniqueEvent before = make_event(), after = make_event();
  std::vector<double> seconds;
  work(stream.get());
  for (int i = 0; i < runs; ++i) {
    check(cudaEventRecord(before.get(), stream.get()), "timing a kernel");
    work(stream.get());
    check(cudaEventRecord(after.get(), stream.get()), "timing a kernel");
    check(cudaEventSynchronize(after.get()), "timing a kernel");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, before.get(), after.get()), "timing a kernel");
    seconds.push_back(milliseconds * 1e-3);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs / 2)];
}

}  // namespace hetpipe::cuda
