// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "kernels/cuda/own/simt.h"
#include "kernels/offload/thread_stream.h"
#include "tests/cuda/double/double.h"

using Clock = std::chrono::steady_clock;

struct CUstream_st {
  int gpu = 0;
  hetpipe::ThreadStream work;
};
struct CUevent_st {
  int gpu = 0;
  std::unique_ptr<hetpipe::Event> event;    // null: never recorded
  std::shared_ptr<Clock::time_point> time;  // written before `event` is done
};

namespace hetpipe::cuda::stand_in {
namespace {

// Own kernels are enqueued like everything else.
const bool streams_take_launches = [] {
  set_launch_queue([](cudaStream_t stream, const void* kernel, std::function<void()> work) {
    need_code(format("kernel %p", kernel), true);
    count(Counted::kernel);
    enqueue(stream, std::move(work));
    // As launches do on a card (kernels/cuda/own/simt.h): what failed before is theirs to report.
    const cudaError_t before = cudaGetLastError();
    if (before != cudaSuccess) {
      throw SystemError(std::string("CUDA: an earlier failure, ") + cudaGetErrorName(before) +
                        ", while a kernel was launched");
    }
  });
  return true;
}();

std::atomic<std::int64_t> counts[kCounted];

// All that there are.
std::mutex streams_mutex;
std::set<cudaStream_t> streams;  // under it

template <class Call>
cudaError_t guarded_launch(const Call& call) {
  try {
    call();
    return cudaSuccess;
  } catch (const std::exception& e) {
    return fail(cudaErrorLaunchFailure, e.what());
  }
}

}  // namespace

void count(Counted what) { ++counts[static_cast<int>(what)]; }

void enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) throw SystemError("work for the default stream, on which no rank waits");
  if (stream->gpu != gpu_in_use()) {
    throw SystemError("work for a stream of GPU " + std::to_string(stream->gpu) + " while GPU " +
                      std::to_string(gpu_in_use()) + " is in use");
  }
  if (card().works) stream->work.enqueue(std::move(work));
}

}  // namespace hetpipe::cuda::stand_in

using namespace hetpipe::cuda::stand_in;

extern "C" {

std::int64_t hetpipe_double_count(int what) { return counts[what]; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamNonBlocking) return fail(cudaErrorInvalidValue, "a stream that blocks");
  *stream = new CUstream_st{gpu_in_use(), {}};
  const std::lock_guard lock(streams_mutex);
  streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const std::lock_guard lock(streams_mutex);
    streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}
// The default stream runs at once.
cudaError_t cudaDeviceSynchronize() {
  const std::lock_guard lock(streams_mutex);
  return guarded_launch([&] {
    for (const cudaStream_t stream : streams) {
      if (stream->gpu == gpu_in_use()) stream->work.synchronize();
    }
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded_launch([&] { stream->work.synchronize(); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return guarded_launch([&] {
    if (event->event != nullptr) stream->work.wait(*event->event);
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{gpu_in_use(), nullptr, nullptr};
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->gpu != stream->gpu) {
    return fail(cudaErrorInvalidValue, "an event of another GPU than the stream's");
  }
  event->time = std::make_shared<Clock::time_point>();
  stream->work.enqueue([time = event->time] { *time = Clock::now(); });
  event->event = stream->work.record();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  bool done = true;
  const cudaError_t status =
      guarded_launch([&] { done = event->event == nullptr || event->event->done(); });
  if (status != cudaSuccess) return status;
  return done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  for (;;) {
    const cudaError_t status = cudaEventQuery(event);
    if (status != cudaErrorNotReady) return status;
    std::this_thread::yield();
  }
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(*end->time - *start->time).count();
  return cudaSuccess;
}

}  // extern "C"
