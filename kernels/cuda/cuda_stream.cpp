// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_stream.h"

#include "kernels/cuda/check.h"

namespace hetpipe::cuda {

DeviceScope::DeviceScope(int index) {
  check(cudaGetDevice(&before_), "asking for the GPU in use");
  changed_ = before_ != index;
  if (changed_) check(cudaSetDevice(index), "choosing a GPU");
}

DeviceScope::~DeviceScope() {
  if (changed_) cudaSetDevice(before_);
}

CudaEvent::CudaEvent(int device, cudaStream_t stream) : device_(device) {
  const DeviceScope scope(device_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  event_ = UniqueEvent(event);
  check(cudaEventRecord(event, stream), "recording an event");
}

bool CudaEvent::done() const {
  const DeviceScope scope(device_);
  const cudaError_t status = cudaEventQuery(event_.get());
  if (status == cudaErrorNotReady) return false;
  check(status, "waiting for work on the GPU");
  return true;
}

CudaStream::CudaStream(int device) : device_(device) {
  const DeviceScope scope(device_);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = UniqueHandle<Traits>(stream);
}

std::unique_ptr<Event> CudaStream::record() {
  return std::make_unique<CudaEvent>(device_, stream_.get());
}

void CudaStream::wait(const Event& event) {
  const DeviceScope scope(device_);
  check(cudaStreamWaitEvent(stream_.get(), dynamic_cast<const CudaEvent&>(event).get()),
        "making a stream wait");
}

void CudaStream::synchronize() {
  const DeviceScope scope(device_);
  check(cudaStreamSynchronize(stream_.get()), "waiting for a stream");
}

}  // namespace hetpipe::cuda
