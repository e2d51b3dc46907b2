// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/raw_mpi.h"

#include <mpi.h>

#include <climits>

#include "base/error.h"

namespace hetpipe::bench {
namespace {

constexpr int kData = 1;
constexpr int kSignal = 2;

void check(int code) {
  if (code != MPI_SUCCESS) throw SystemError("raw MPI failed");
}

int count_of(std::size_t bytes) {
  ensure(bytes <= INT_MAX, "a raw message past MPI's counts");
  return static_cast<int>(bytes);
}

}  // namespace

struct RawMpi::State {
  MPI_Comm communicator = MPI_COMM_NULL;
};

RawMpi::RawMpi() : state_(std::make_unique<State>()) {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &state_->communicator));
}

RawMpi::~RawMpi() { MPI_Comm_free(&state_->communicator); }

void RawMpi::send(const std::vector<std::pair<int, std::span<const std::byte>>>& messages) {
  std::vector<MPI_Request> requests;
  for (const auto& [to, bytes] : messages) {
    check(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, to, kData, state_->communicator,
                    &requests.emplace_back()));
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void RawMpi::receive(const std::vector<std::pair<int, std::span<std::byte>>>& messages) {
  std::vector<MPI_Request> requests;
  for (const auto& [from, bytes] : messages) {
    check(MPI_Irecv(bytes.data(), count_of(bytes.size()), MPI_BYTE, from, kData,
                    state_->communicator, &requests.emplace_back()));
  }
  check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

void RawMpi::signal(int to) {
  check(MPI_Send(nullptr, 0, MPI_BYTE, to, kSignal, state_->communicator));
}

void RawMpi::wait_signal(int from) {
  check(MPI_Recv(nullptr, 0, MPI_BYTE, from, kSignal, state_->communicator, MPI_STATUS_IGNORE));
}

bool RawMpi::try_signal(int from) {
  int found = 0;
  check(MPI_Iprobe(from, kSignal, state_->communicator, &found, MPI_STATUS_IGNORE));
  if (found != 0) wait_signal(from);
  return found != 0;
}

void RawMpi::barrier() { check(MPI_Barrier(state_->communicator)); }

}  // namespace hetpipe::bench
