// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi_queues.h"

#include <algorithm>

#include "base/error.h"
#include "base/keep_for_ever.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/mpi_parts.h"

namespace hetpipe {

MpiQueues::MpiQueues(int ranks, const MpiCommunicators& communicators, OutgoingStamps& stamps)
    : communicators_(communicators),
      stamps_(stamps),
      sends_(static_cast<std::size_t>(ranks * kChannels)),
      receives_(sends_.size()) {}

MpiQueues::~MpiQueues() {
  for (Queue* queue : active_) {
    for (std::shared_ptr<MpiMessage>& message : queue->messages) {
      for (MPI_Request& request : message->requests) {
        if (request == MPI_REQUEST_NULL) continue;
        if (message->incoming) MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
      keep_for_ever(std::move(message));  // MPI may still write to what was cancelled
    }
  }
}

Operation MpiQueues::add(std::shared_ptr<MpiMessage> message) {
  if (!message->incoming) ++outgoing_;
  const Route& route = message->route;
  const Rank peer = message->incoming ? route.from : route.to;
  const auto at =
      static_cast<std::size_t>(peer.value * kChannels + static_cast<int>(route.channel));
  Queue& queue = (message->incoming ? receives_ : sends_)[at];
  if (queue.messages.empty()) active_.push_back(&queue);
  queue.messages.push_back(message);
  post_more(queue);
  return Operation(std::move(message));
}

void MpiQueues::progress() {
  bool more = true;
  while (more) {
    more = test_fronts();
    for (Queue* queue : active_) more |= post_more(*queue);
    std::erase_if(active_, [&](Queue* queue) { return drain(*queue); });
  }
}

// Gives MPI what it can have by now, in order; true when that was anything.
bool MpiQueues::post_more(Queue& queue) {
  bool more = false;
  while (queue.posted < queue.messages.size()) {
    MpiMessage& posted = *queue.messages[queue.posted];
    more |= post(posted);
    if (!posted.all_posted()) return more;
    ++queue.posted;
  }
  return more;
}

void MpiQueues::post_header(MpiMessage& posted) {
  const Route& route = posted.route;
  posted.requests.push_back(MPI_REQUEST_NULL);
  if (posted.incoming) {
    check_mpi(MPI_Irecv(&posted.wire, sizeof posted.wire, MPI_BYTE, route.from.value,
                        mpi_tag(route.channel), communicator(route), &posted.requests.back()),
              "MPI_Irecv", route);
    return;
  }
  posted.wire = stamps_.stamp(route, posted.wire, posted.bytes);
  check_mpi(MPI_Isend(&posted.wire, sizeof posted.wire, MPI_BYTE, route.to.value,
                      mpi_tag(route.channel), communicator(route), &posted.requests.back()),
            "MPI_Isend", route);
}

bool MpiQueues::post(MpiMessage& posted) {
  const Route& route = posted.route;
  bool any = false;
  // A header goes out with the first piece: its time of sending is when that was there.
  if (posted.requests.empty() && (posted.incoming || posted.bytes == 0)) {
    post_header(posted);
    any = true;
  }
  while (posted.posted < posted.bytes) {
    const std::uint64_t offset = posted.posted;
    const std::uint64_t bytes = std::min(posted.piece_bytes, posted.bytes - offset);
    std::byte* const memory =
        posted.pieces == nullptr ? posted.payload + offset : posted.pieces->next(offset, bytes);
    if (memory == nullptr) return any;
    if (posted.requests.empty()) post_header(posted);
    const auto count = static_cast<int>(bytes);
    posted.requests.push_back(MPI_REQUEST_NULL);
    MPI_Request* const request = &posted.requests.back();
    if (posted.incoming) {
      check_mpi(MPI_Irecv(memory, count, MPI_BYTE, route.from.value, mpi_tag(route.channel),
                          communicator(route), request),
                "MPI_Irecv", route);
    } else {
      check_mpi(MPI_Isend(memory, count, MPI_BYTE, route.to.value, mpi_tag(route.channel),
                          communicator(route), request),
                "MPI_Isend", route);
    }
    posted.posted += bytes;
    any = true;
  }
  return any;
}

// One call for all queues: each call that finds nothing makes MPI look through all its connections.
// True when anything was finished.
bool MpiQueues::test_fronts() {
  fronts_.clear();
  front_requests_.clear();
  for (Queue* queue : active_) {
    MpiMessage& posted = *queue->messages.front();
    // On its emulated way, or its next piece is not there yet.
    if (posted.finished == posted.requests.size()) continue;
    fronts_.push_back(&posted);
    front_requests_.push_back(posted.requests[posted.finished]);
  }
  if (fronts_.empty()) return false;
  front_indices_.resize(fronts_.size());
  front_statuses_.resize(fronts_.size());
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(fronts_.size()), front_requests_.data(), &count,
                                front_indices_.data(), front_statuses_.data());
  if (code != MPI_ERR_IN_STATUS) check_mpi(code, "MPI_Testsome");
  for (int i = 0; i < count; ++i) {
    const auto front = static_cast<std::size_t>(front_indices_[static_cast<std::size_t>(i)]);
    const MPI_Status& status = front_statuses_[static_cast<std::size_t>(i)];
    MpiMessage& posted = *fronts_[front];
    posted.requests[posted.finished] = front_requests_[front];
    if (code == MPI_ERR_IN_STATUS) check_mpi(status.MPI_ERROR, "MPI_Testsome", posted.route);
    finished_one(posted, status);
  }
  return count > 0;
}

void MpiQueues::finished_one(MpiMessage& posted, const MPI_Status& status) {
  if (posted.incoming && posted.finished == 0) {
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count", posted.route);
    if (length != static_cast<int>(sizeof(MessageHeader))) {
      throw SystemError(format("%s: %d bytes came where a header of %zu bytes was expected",
                               to_string(posted.route).c_str(), length, sizeof(MessageHeader)));
    }
    check_arrival(posted.route, posted.wire, posted.bytes, posted.sequence);
  }
  if (posted.pieces != nullptr && posted.finished > 0) {
    const std::uint64_t offset = (posted.finished - 1) * posted.piece_bytes;
    posted.pieces->finished(offset, std::min(posted.piece_bytes, posted.bytes - offset));
  }
  ++posted.finished;
}

// Hands over what is finished, in order; true when the queue is empty.
bool MpiQueues::drain(Queue& queue) {
  while (!queue.messages.empty()) {
    MpiMessage& posted = *queue.messages.front();
    if (!posted.all_finished()) return false;
    if (posted.incoming && posted.wire.deliver_ns > now_ns()) return false;
    posted.header = posted.wire;
    posted.done = true;
    if (!posted.incoming) --outgoing_;
    queue.messages.pop_front();
    --queue.posted;
  }
  return true;
}

}  // namespace hetpipe
