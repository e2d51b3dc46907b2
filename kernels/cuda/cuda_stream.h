// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "kernels/cuda/handles.h"
#include "kernels/device.h"

namespace hetpipe::cuda {

// Makes a GPU the calling thread's, from now on: ranks may be threads of one process, and all that
// needs a GPU says which. None is put back: choosing one makes a context on it, of hundreds of
// megabytes, and in exclusive mode only one process may have that.
void use_gpu(int index);

// An event whose time on the host's clock is known: others are timed from there. It moves along, as
// CUDA gives milliseconds as float.
struct KnownTime {
  std::shared_ptr<const UniqueEvent> event;
  std::int64_t ns = 0;
};

class CudaEvent final : public Event {
 public:
  // Recorded on the stream. `known`: of the stream; null: without a time.
  CudaEvent(int device, cudaStream_t stream, std::shared_ptr<KnownTime> known);
  bool done() const override;
  std::int64_t done_ns() const override;
  cudaEvent_t get() const { return event_->get(); }
  const std::shared_ptr<const UniqueEvent>& shared() const { return event_; }

 private:
  int device_;
  std::shared_ptr<const UniqueEvent> event_;
  std::shared_ptr<KnownTime> known_;
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(int device);  // does not wait for the default stream, nor that for it
  std::unique_ptr<Event> record() override;
  std::unique_ptr<Event> record_time() override;
  void wait(const Event& event) override;
  void synchronize() override;
  cudaStream_t get() const { return stream_.get(); }

 private:
  struct Traits {
    using Handle = cudaStream_t;
    static Handle empty() { return nullptr; }
    // What is enqueued is done before the memory that it uses can be given back.
    static void close(Handle stream) noexcept {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
  };
  int device_;
  UniqueHandle<Traits> stream_;
  std::shared_ptr<KnownTime> known_ = std::make_shared<KnownTime>();
};

inline cudaStream_t handle(const Stream& stream) {
  return dynamic_cast<const CudaStream&>(stream).get();
}

}  // namespace hetpipe::cuda
