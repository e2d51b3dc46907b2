// SPDX-License-Identifier: Apache-2.0
// NCCL as the transport's module calls it: communicators of two ranks that are threads of this
// process. A transfer is a piece of work on each end's stream, which waits there until the other
// end's has begun, as NCCL's kernels do.
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/error.h"
#include "tests/cuda/double/double.h"

namespace hetpipe::cuda::stand_in {
namespace {

struct Sent {
  const void* from = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};

// What the ends of a link have in common.
struct Wire {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  bool aborted = false;
  std::deque<std::shared_ptr<Sent>> sent;  // by work that has begun
};

std::mutex wires_mutex;
std::map<std::string, std::shared_ptr<Wire>> wires;  // under it
std::atomic<int> ids = 0, opened = 0, transfers = 0, most_blocks = 0;

}  // namespace
}  // namespace hetpipe::cuda::stand_in

using namespace hetpipe::cuda::stand_in;

struct ncclComm {
  std::shared_ptr<Wire> wire;
  int rank = 0;
  int gpu = 0;
};

namespace {

void end(ncclComm_t communicator) {
  link_closes(communicator->gpu);
  delete communicator;
}

}  // namespace

extern "C" {

// For tests: what there has been so far.
int hetpipe_double_links() { return opened; }
int hetpipe_double_transfers() { return transfers; }
int hetpipe_double_link_blocks() { return most_blocks; }

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "refused by NCCL's double"; }
const char* ncclGetLastError(ncclComm_t) { return "-"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "link %d", ++ids);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks != 2 || config->blocking != 0 || config->maxCTAs < 1) return ncclInvalidArgument;
  most_blocks = config->maxCTAs;
  auto* const made = new ncclComm{nullptr, rank, gpu_in_use()};
  {
    const std::lock_guard lock(wires_mutex);
    std::shared_ptr<Wire>& wire = wires[id.internal];
    if (wire == nullptr) wire = std::make_shared<Wire>();
    made->wire = wire;
  }
  link_opens(made->gpu);
  ++opened;
  const std::lock_guard lock(made->wire->mutex);
  ++made->wire->joined;
  *communicator = made;
  return ncclInProgress;
}
ncclResult_t ncclCommInitRank(ncclComm_t*, int, ncclUniqueId, int) { return ncclInvalidUsage; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const std::lock_guard lock(communicator->wire->mutex);
  *state = communicator->wire->aborted      ? ncclRemoteError
           : communicator->wire->joined < 2 ? ncclInProgress
                                            : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  end(communicator);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    const std::lock_guard lock(communicator->wire->mutex);
    communicator->wire->aborted = true;
    communicator->wire->changed.notify_all();
  }
  end(communicator);
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() { return ncclSuccess; }
ncclResult_t ncclGroupEnd() { return ncclSuccess; }

ncclResult_t ncclSend(const void* memory, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (type != ncclInt8 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  try {
    check_inside("what NCCL sends", memory, count, 1);
    enqueue(stream, [memory, count, wire = communicator->wire] {
      std::unique_lock lock(wire->mutex);
      const auto own = std::make_shared<Sent>(Sent{memory, count});
      wire->sent.push_back(own);
      wire->changed.notify_all();
      wire->changed.wait(lock, [&] { return own->taken || wire->aborted; });
    });
  } catch (const hetpipe::SystemError&) {
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* memory, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t communicator, cudaStream_t stream) {
  if (type != ncclInt8 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  try {
    check_inside("what NCCL receives", memory, count, 1);
    enqueue(stream, [memory, count, wire = communicator->wire] {
      std::unique_lock lock(wire->mutex);
      wire->changed.wait(lock, [&] { return !wire->sent.empty() || wire->aborted; });
      if (wire->aborted) return;
      const std::shared_ptr<Sent> came = wire->sent.front();
      wire->sent.pop_front();
      if (came->bytes != count) throw hetpipe::SystemError("NCCL's two ends differ in bytes");
      std::memcpy(memory, came->from, count);
      came->taken = true;
      ++transfers;
      wire->changed.notify_all();
    });
  } catch (const hetpipe::SystemError&) {
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

}  // extern "C"
