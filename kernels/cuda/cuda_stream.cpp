// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cuda_stream.h"

#include <utility>

#include "base/error.h"
#include "base/time.h"

#include "kernels/cuda/check.h"

namespace hetpipe::cuda {

namespace {

// Some engines of cuDNN capture what they launch, in a mode in which the other threads of a process
// may not allocate meanwhile, unless they say that theirs is not captured work.
void work_beside_captures() {
  thread_local bool said = false;
  if (said) return;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  check(cudaThreadExchangeStreamCaptureMode(&mode), "working beside captured streams");
  said = true;
}

}  // namespace

void use_gpu(int index) {
  work_beside_captures();
  int now = 0;
  check(cudaGetDevice(&now), "asking for the GPU in use");
  if (now != index) check(cudaSetDevice(index), "choosing a GPU");
}

CudaEvent::CudaEvent(int device, cudaStream_t stream, std::shared_ptr<KnownTime> known)
    : device_(device), known_(std::move(known)) {
  use_gpu(device_);
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, known_ ? cudaEventDefault : cudaEventDisableTiming),
        "making an event");
  event_ = std::make_shared<const UniqueEvent>(event);
  check(cudaEventRecord(event, stream), "recording an event");
}

bool CudaEvent::done() const {
  use_gpu(device_);
  const cudaError_t status = cudaEventQuery(event_->get());
  if (status == cudaErrorNotReady) return false;
  check(status, "waiting for work on the GPU");
  return true;
}

std::int64_t CudaEvent::done_ns() const {
  constexpr float kMoveAfter = 1000;  // ms
  ensure(known_ != nullptr, "an event that was recorded with its time");
  use_gpu(device_);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, known_->event->get(), event_->get()),
        "reading the time of an event");
  const std::int64_t ns = known_->ns + static_cast<std::int64_t>(double{milliseconds} * 1e6);
  if (milliseconds > kMoveAfter) *known_ = {event_, ns};
  return ns;
}

CudaStream::CudaStream(int device) : device_(device) {
  use_gpu(device_);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  stream_ = UniqueHandle<Traits>(stream);
}

std::unique_ptr<Event> CudaStream::record() {
  return std::make_unique<CudaEvent>(device_, stream_.get(), nullptr);
}

std::unique_ptr<Event> CudaStream::record_time() {
  if (known_->event == nullptr) {
    const CudaEvent first(device_, stream_.get(), known_);
    synchronize();
    *known_ = {first.shared(), now_ns()};
  }
  return std::make_unique<CudaEvent>(device_, stream_.get(), known_);
}

void CudaStream::wait(const Event& event) {
  use_gpu(device_);
  check(cudaStreamWaitEvent(stream_.get(), dynamic_cast<const CudaEvent&>(event).get()),
        "making a stream wait");
}

void CudaStream::synchronize() {
  use_gpu(device_);
  check(cudaStreamSynchronize(stream_.get()), "waiting for a stream");
}

}  // namespace hetpipe::cuda
