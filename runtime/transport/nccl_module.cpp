// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/nccl_module.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <source_location>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "kernels/cuda/handles.h"

namespace hetpipe {
namespace {

using Where = std::source_location;

constexpr double kFinalizeSeconds = 5;

void check(cudaError_t status, const char* doing, const Where& where = Where::current()) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // or the next call would report it
  throw SystemError(format("CUDA: %s at %s:%u, while %s", cudaGetErrorString(status),
                           where.file_name(), where.line(), doing));
}

// In progress is no failure: the communicator is asked again.
void check(ncclResult_t result, ncclComm_t communicator, const char* doing,
           const Where& where = Where::current()) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw SystemError(format("NCCL: %s (%s) at %s:%u, while %s", ncclGetErrorString(result),
                           ncclGetLastError(communicator), where.file_name(), where.line(), doing));
}

// Makes a GPU the calling thread's, from now on, and touches no other.
void use_gpu(int gpu) {
  int now = 0;
  check(cudaGetDevice(&now), "asking for the GPU in use");
  if (now != gpu) check(cudaSetDevice(gpu), "choosing a GPU");
}

cuda::UniqueStream make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "making a stream");
  return cuda::UniqueStream(stream);
}

ncclUniqueId id_from(const std::string& text) {
  ncclUniqueId id{};
  if (text.size() != sizeof id) throw SystemError("an id from another version of NCCL");
  std::memcpy(&id, text.data(), sizeof id);
  return id;
}

// Of NCCL's, as NCCL reads it; what is no positive number is as if it were not set.
std::size_t variable(const char* name, std::size_t usual) {
  const char* const text = std::getenv(name);
  const long long value = text != nullptr ? std::strtoll(text, nullptr, 0) : 0;
  return value > 0 ? static_cast<std::size_t>(value) : usual;
}

class Move final : public NcclLink::Transfer {
 public:
  Move(void* the_memory, std::size_t the_bytes) : memory(the_memory), bytes(the_bytes) {}
  bool done() const override {
    if (finished) return true;
    if (event.get() == nullptr) return false;
    const cudaError_t status = cudaEventQuery(event.get());
    if (status == cudaErrorNotReady) return false;
    check(status, "waiting for NCCL on the GPU");
    finished = true;
    return true;
  }

  void* memory;
  std::size_t bytes;
  cuda::UniqueEvent event{};  // recorded once NCCL has enqueued it
  mutable bool finished = false;
};

class Link final : public NcclLink {
 public:
  Link(const std::string& id, int end, int gpu, int blocks) : end_(end), gpu_(gpu) {
    const ncclUniqueId unique = id_from(id);
    use_gpu(gpu_);
    stream_ = make_stream();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.maxCTAs = blocks;
    check(ncclCommInitRankConfig(&communicator_, 2, unique, end_, &config), communicator_,
          "connecting two ranks");
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  ~Link() override {
    if (communicator_ == nullptr) return;
    bool idle = connected_ && !failed_ && waiting_.empty();
    for (const auto& move : enqueued_) idle = idle && move->finished;
    if (!idle) {
      ncclCommAbort(communicator_);  // its kernels end, whatever they wait for
      return;
    }
    ncclResult_t state = ncclCommFinalize(communicator_);
    const std::int64_t deadline = now_ns() + to_ns(kFinalizeSeconds);
    while (state == ncclInProgress && now_ns() < deadline) {
      if (ncclCommGetAsyncError(communicator_, &state) != ncclSuccess) break;
    }
    if (state == ncclSuccess) {
      ncclCommDestroy(communicator_);
    } else {
      ncclCommAbort(communicator_);
    }
  }

  bool connected() const override { return connected_; }

  bool poll() override {
    use_gpu(gpu_);
    ncclResult_t state = ncclSuccess;
    try {
      check(ncclCommGetAsyncError(communicator_, &state), communicator_, "asking for its state");
      check(state, communicator_, connected_ ? "moving a message" : "connecting two ranks");
    } catch (...) {
      failed_ = true;
      throw;
    }
    if (state == ncclInProgress) return false;
    bool any = !std::exchange(connected_, true);
    while (!enqueued_.empty() && enqueued_.front()->done()) {
      enqueued_.pop_front();
      any = true;
    }
    // One call at a time: the next one only when NCCL is through with it.
    if (calling_ != nullptr) {
      mark(*calling_);
      enqueued_.push_back(std::move(calling_));
      any = true;
    }
    if (waiting_.empty()) return any;
    calling_ = std::move(waiting_.front());
    waiting_.pop_front();
    if (calling_->bytes == 0) return true;
    const int peer = 1 - end_;
    check(end_ == 0 ? ncclSend(calling_->memory, calling_->bytes, ncclInt8, peer, communicator_,
                               stream_.get())
                    : ncclRecv(calling_->memory, calling_->bytes, ncclInt8, peer, communicator_,
                               stream_.get()),
          communicator_, end_ == 0 ? "sending a message" : "receiving a message");
    return true;
  }

  std::shared_ptr<Transfer> send(std::span<const std::byte> memory) override {
    ensure(end_ == 0, "the receiving end of a link sends");
    return add(const_cast<std::byte*>(memory.data()), memory.size());
  }
  std::shared_ptr<Transfer> receive(std::span<std::byte> memory) override {
    ensure(end_ == 1, "the sending end of a link receives");
    return add(memory.data(), memory.size());
  }

 private:
  std::shared_ptr<Transfer> add(void* memory, std::size_t bytes) {
    waiting_.push_back(std::make_shared<Move>(memory, bytes));
    return waiting_.back();
  }
  void mark(Move& move) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
    move.event = cuda::UniqueEvent(event);
    check(cudaEventRecord(event, stream_.get()), "recording an event");
  }

  int end_;
  int gpu_;
  cuda::UniqueStream stream_;
  ncclComm_t communicator_ = nullptr;
  bool connected_ = false;
  bool failed_ = false;
  std::deque<std::shared_ptr<Move>> waiting_;
  std::shared_ptr<Move> calling_;
  std::deque<std::shared_ptr<Move>> enqueued_;
};

class Module final : public NcclModule {
 public:
  std::string version() const override {
    int version = 0;
    check(ncclGetVersion(&version), nullptr, "asking for its version");
    return format("NCCL %d.%d.%d", version / 10000, version % 10000 / 100, version % 100);
  }
  std::string make_id() const override {
    ncclUniqueId id{};
    check(ncclGetUniqueId(&id), nullptr, "naming a communicator");
    return {id.internal, sizeof id.internal};
  }
  std::unique_ptr<NcclLink> connect(const std::string& id, int end, int gpu,
                                    int blocks) const override {
    return std::make_unique<Link>(id, end, gpu, blocks);
  }

  // As NCCL 2.28 takes it (p2pSendSetup, p2pRecvSetup in its src/transport/p2p.cc; sizes in
  // src/init.cc): of each channel the receiver has buffers of three protocols, LL, LL128 and
  // simple, of which the last one may be the sender's instead; each end is a multiple of 2 MiB, and
  // begins with a page of counters. There are as many channels as blocks, in powers of two. NCCL's
  // own variables go before ours there, so they do here.
  std::size_t bytes_of_pair(int blocks) const override {
    constexpr std::size_t kPage = 4096, kMultiple = std::size_t{2} << 20;
    const std::size_t buffers = variable("NCCL_LL_BUFFSIZE", std::size_t{512} << 10) +
                                variable("NCCL_LL128_BUFFSIZE", std::size_t{4800} << 10) +
                                variable("NCCL_BUFFSIZE", std::size_t{4} << 20);
    const auto whole = [](std::size_t bytes) {
      return (bytes + kMultiple - 1) / kMultiple * kMultiple;
    };
    const std::size_t channels =
        std::bit_ceil(variable("NCCL_MAX_CTAS", static_cast<std::size_t>(blocks)));
    return channels * (whole(kPage) + whole(kPage + buffers));
  }

  void send_to_self(int gpu, std::size_t bytes) const override {
    use_gpu(gpu);
    const cuda::UniqueStream stream = make_stream();
    ncclComm_t communicator = nullptr;
    check(ncclCommInitRank(&communicator, 1, id_from(make_id()), 0), nullptr,
          "making a communicator of one rank");
    void* taken = nullptr;
    check(cudaMalloc(&taken, 2 * bytes), "taking memory");
    const cuda::UniqueMemory owner(taken);
    auto* const memory = static_cast<std::byte*>(taken);
    std::vector<std::byte> sent(bytes), came(bytes);
    for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::byte>(i * 7 + i / 251);
    check(cudaMemcpy(memory, sent.data(), bytes, cudaMemcpyDefault), "copying");
    check(ncclGroupStart(), communicator, "grouping calls");
    check(ncclSend(memory, bytes, ncclInt8, 0, communicator, stream.get()), communicator,
          "sending to itself");
    check(ncclRecv(memory + bytes, bytes, ncclInt8, 0, communicator, stream.get()), communicator,
          "receiving from itself");
    check(ncclGroupEnd(), communicator, "grouping calls");
    check(cudaStreamSynchronize(stream.get()), "waiting for NCCL");
    check(cudaMemcpy(came.data(), memory + bytes, bytes, cudaMemcpyDefault), "copying");
    check(ncclCommDestroy(communicator), nullptr, "ending a communicator");
    if (came != sent) throw SystemError("NCCL: the bytes received differ from those sent");
  }
};

}  // namespace
}  // namespace hetpipe

extern "C" const hetpipe::NcclModule* hetpipe_nccl_module(int abi) {
  // Between two GPUs of one process NCCL would write straight into the receiver's tensors. These lie
  // in memory pools, which, unlike cudaMalloc's memory, no other GPU reaches unless it is told so.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", 1);
  static const hetpipe::Module module;
  return abi == hetpipe::kNcclModuleAbi ? &module : nullptr;
}
