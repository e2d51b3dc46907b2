// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/transport/stamps.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Tells channels apart where they share a communicator.
inline int mpi_tag(Channel channel) { return 1 + static_cast<int>(channel); }
using MpiCommunicators = std::array<MPI_Comm, kChannels>;

// One on its way, with everything MPI reads or writes while it is.
struct MpiMessage : Operation::State {
  Route route;
  bool incoming = false;
  std::uint64_t bytes = 0;                // of the payload
  std::uint64_t piece_bytes = 0;          // of all pieces but the last
  std::uint64_t posted = 0;               // bytes of the payload
  std::uint64_t sequence = 0;             // incoming: expected
  std::byte* payload = nullptr;           // where it lies in one piece; sends only read it
  std::shared_ptr<PayloadPieces> pieces;  // where it does not
  MessageHeader wire;
  std::vector<std::byte> copy;        // control: header and payload in one
  std::vector<MPI_Request> requests;  // header, then pieces, as far as posted
  std::size_t finished = 0;           // of requests

  bool all_posted() const { return !requests.empty() && posted == bytes; }
  bool all_finished() const { return all_posted() && finished == requests.size(); }
};

// Messages that leave and arrive, a queue for each route. A message is its header and then its
// payload in pieces, all nonblocking, on the channel's communicator with its tag: MPI does not let
// messages of one sender overtake each other there, so the n-th receive meets the n-th send.
// Whoever has a payload in pieces is asked for the next one only when everything before it has been
// posted.
class MpiQueues {
 public:
  // Both outlive this.
  MpiQueues(int ranks, const MpiCommunicators& communicators, OutgoingStamps& stamps);
  MpiQueues(const MpiQueues&) = delete;
  MpiQueues& operator=(const MpiQueues&) = delete;
  ~MpiQueues();  // cancels what is left, without waiting

  // After the earlier ones of its route.
  Operation add(std::shared_ptr<MpiMessage> message);
  // Takes from MPI what is complete and gives it what it can take, until nothing moves.
  void progress();
  bool idle() const { return outgoing_ == 0; }  // nothing is leaving

 private:
  struct Queue {
    std::deque<std::shared_ptr<MpiMessage>> messages;
    std::size_t posted = 0;  // the first so many are wholly with MPI
  };

  MPI_Comm communicator(const Route& route) const {
    return communicators_[static_cast<std::size_t>(route.channel)];
  }
  bool post_more(Queue& queue);
  bool post(MpiMessage& message);
  void post_header(MpiMessage& message);
  bool test_fronts();
  void finished_one(MpiMessage& message, const MPI_Status& status);
  bool drain(Queue& queue);

  const MpiCommunicators& communicators_;
  OutgoingStamps& stamps_;
  std::vector<Queue> sends_;     // [to * kChannels + channel]
  std::vector<Queue> receives_;  // [from * kChannels + channel]
  std::vector<Queue*> active_;   // the queues that are not empty
  // What test_fronts() asks MPI: the next request of the first message of each active queue.
  std::vector<MpiMessage*> fronts_;
  std::vector<MPI_Request> front_requests_;
  std::vector<int> front_indices_;
  std::vector<MPI_Status> front_statuses_;
  std::size_t outgoing_ = 0;
};

}  // namespace hetpipe
