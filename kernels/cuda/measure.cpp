// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/measure.h"

#include <algorithm>

#include "kernels/cuda/check.h"

namespace hetpipe::cuda {
namespace {

// Neither waits for the default stream nor is waited for by it: another thread may be capturing.
UniqueStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return UniqueStream(stream);
}
UniqueEvent make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return UniqueEvent(event);
}

}  // namespace

Scratch::Scratch(const std::vector<std::size_t>& bytes, int byte) : stream_(make_stream()) {
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
    if (memory != nullptr) {
      check(cudaMemsetAsync(memory, byte, size, stream_.get()), "filling memory");
    }
  }
  check(cudaStreamSynchronize(stream_.get()), "filling memory");
}

void Scratch::read(void* to, std::size_t i, std::size_t bytes) const {
  check(cudaMemcpyAsync(to, block(i), bytes, cudaMemcpyDeviceToHost, stream_.get()),
        "reading a result");
  check(cudaStreamSynchronize(stream_.get()), "reading a result");
}

double median_seconds(int runs, const std::function<void(cudaStream_t)>& work) {
  const UniqueStream stream = make_stream();
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
