// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/mpi_transport.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/mpi_check.h"
#include "runtime/transport/mpi_watchdog.h"
#include "runtime/transport/stamps.h"
#include "runtime/transport/wait.h"

// A message is its header and then its payload in pieces, all nonblocking, on the channel's
// communicator with one tag: MPI does not let messages of one sender overtake each other there, so
// the n-th receive meets the n-th send.
namespace hetpipe {
namespace {

constexpr int kTag = 1;
constexpr double kAbortSeconds = 10;

// A message on its way, with everything MPI reads or writes while it is.
struct Posted : Operation::State {
  Route route;
  bool incoming = false;
  std::uint64_t bytes = 0;     // incoming: of the posted payload
  std::uint64_t sequence = 0;  // incoming: expected
  MessageHeader wire;
  std::vector<std::byte> copy;        // control: header and payload in one
  std::vector<MPI_Request> requests;  // header, then pieces
  std::size_t finished = 0;           // of requests
};
using Queue = std::deque<std::shared_ptr<Posted>>;

struct IncomingControl {
  Route route;
  std::vector<std::byte> bytes;
  MPI_Request request = MPI_REQUEST_NULL;
};

struct Exchange {
  std::uint64_t own_size = 0;
  std::vector<std::uint64_t> sizes;
  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<std::byte> own;
  std::vector<std::byte> all;
};

// MPI may still write to what was cancelled or given up, so such memory is never freed. Happens
// only on the way out of a failed job.
template <class T>
void keep_for_ever(T value) {
  static auto* kept = new std::vector<T>;
  kept->push_back(std::move(value));
}

class MpiTransport : public Transport {
 public:
  MpiTransport(Rank rank, int ranks, const MpiOptions& options);
  ~MpiTransport() override;

  Rank rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void emulate_links(LinkTable table, std::shared_ptr<LinkClock> clock) override {
    stamps_.emulate(std::move(table), std::move(clock));
  }
  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> payload) override;
  Operation receive(Rank from, Channel channel, std::span<std::byte> payload) override;
  void send_control(Rank to, const MessageHeader& header,
                    std::span<const std::byte> payload) override;
  std::optional<ControlMessage> try_receive_control() override;
  void progress() override;
  bool idle() const override { return outgoing_ == 0; }
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override;
  void abort(int exit_code) override;

 private:
  std::size_t index(Rank peer, Channel channel) const {
    return static_cast<std::size_t>(peer.value * kChannels + static_cast<int>(channel));
  }
  MPI_Comm communicator(Channel channel) const {
    return communicators_[static_cast<std::size_t>(channel)];
  }
  template <class Post>
  void post_pieces(Posted& posted, std::uint64_t bytes, const Post& post);
  void enqueue(Queue& queue, std::shared_ptr<Posted> posted);
  bool test_fronts();
  void finished_one(Posted& posted, const MPI_Status& status);
  bool drain(Queue& queue);
  void probe_control();
  void finish_control();
  void wait_for_exchange(MPI_Request request, const char* function);

  Rank rank_;
  int ranks_;
  MpiOptions options_;
  OutgoingStamps stamps_;
  // Freed by MPI_Finalize alone: Open MPI keeps a late message of a freed communicator for the next
  // one that gets its number.
  std::array<MPI_Comm, kChannels> communicators_;
  MPI_Comm exchange_communicator_;
  std::vector<Queue> sends_;     // [to * kChannels + channel]
  std::vector<Queue> receives_;  // [from * kChannels + channel]
  std::vector<std::uint64_t> receive_sequences_;
  std::vector<Queue*> active_;  // the queues that are not empty
  // What test_fronts() asks MPI: the next request of the first message of each active queue.
  std::vector<Posted*> fronts_;
  std::vector<MPI_Request> front_requests_;
  std::vector<int> front_indices_;
  std::vector<MPI_Status> front_statuses_;
  std::size_t outgoing_ = 0;
  std::deque<std::unique_ptr<IncomingControl>> incoming_control_;
  std::deque<ControlMessage> control_;
  std::unique_ptr<Exchange> exchange_;  // under way
};

MPI_Comm duplicate_world() {
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return communicator;
}

MpiTransport::MpiTransport(Rank rank, int ranks, const MpiOptions& options)
    : rank_(rank),
      ranks_(ranks),
      options_(options),
      stamps_(rank, ranks),
      sends_(static_cast<std::size_t>(ranks * kChannels)),
      receives_(sends_.size()),
      receive_sequences_(sends_.size()) {
  ensure(0 < options.piece_bytes && options.piece_bytes <= INT_MAX,
         "piece size outside MPI's counts");
  for (MPI_Comm& communicator : communicators_) communicator = duplicate_world();
  exchange_communicator_ = duplicate_world();
}

// Cancels what is left, without waiting for anybody.
MpiTransport::~MpiTransport() {
  for (Queue* queue : active_) {
    for (std::shared_ptr<Posted>& posted : *queue) {
      for (MPI_Request& request : posted->requests) {
        if (request == MPI_REQUEST_NULL) continue;
        if (posted->incoming) MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
      keep_for_ever(std::move(posted));
    }
  }
  for (auto& control : incoming_control_) {
    if (control->request != MPI_REQUEST_NULL) MPI_Request_free(&control->request);
    keep_for_ever(std::move(control));
  }
  if (exchange_ != nullptr) keep_for_ever(std::move(exchange_));
}

// Calls post(offset, count, request) for each piece of a payload.
template <class Post>
void MpiTransport::post_pieces(Posted& posted, std::uint64_t bytes, const Post& post) {
  for (std::uint64_t offset = 0; offset < bytes; offset += options_.piece_bytes) {
    const int count = static_cast<int>(std::min(options_.piece_bytes, bytes - offset));
    posted.requests.push_back(MPI_REQUEST_NULL);
    post(offset, count, &posted.requests.back());
  }
}

void MpiTransport::enqueue(Queue& queue, std::shared_ptr<Posted> posted) {
  if (!posted->incoming) ++outgoing_;
  if (queue.empty()) active_.push_back(&queue);
  queue.push_back(std::move(posted));
}

Operation MpiTransport::send(Rank to, Channel channel, const MessageHeader& header,
                             std::span<const std::byte> payload) {
  ensure(channel != Channel::control, "control messages go through send_control");
  auto posted = std::make_shared<Posted>();
  posted->route = {rank_, to, channel};
  posted->wire = stamps_.stamp(posted->route, header, payload.size());
  posted->requests.push_back(MPI_REQUEST_NULL);
  enqueue(sends_[index(to, channel)], posted);
  check_mpi(MPI_Isend(&posted->wire, sizeof posted->wire, MPI_BYTE, to.value, kTag,
                      communicator(channel), &posted->requests.front()),
            "MPI_Isend", posted->route);
  post_pieces(*posted, payload.size(), [&](std::uint64_t offset, int count, MPI_Request* request) {
    check_mpi(MPI_Isend(payload.data() + offset, count, MPI_BYTE, to.value, kTag,
                        communicator(channel), request),
              "MPI_Isend", posted->route);
  });
  return Operation(std::move(posted));
}

Operation MpiTransport::receive(Rank from, Channel channel, std::span<std::byte> payload) {
  ensure(channel != Channel::control, "control messages come from try_receive_control");
  ensure(0 <= from.value && from.value < ranks_, "receive from a rank outside the job");
  auto posted = std::make_shared<Posted>();
  posted->route = {from, rank_, channel};
  posted->incoming = true;
  posted->bytes = payload.size();
  posted->sequence = receive_sequences_[index(from, channel)]++;
  posted->requests.push_back(MPI_REQUEST_NULL);
  enqueue(receives_[index(from, channel)], posted);
  check_mpi(MPI_Irecv(&posted->wire, sizeof posted->wire, MPI_BYTE, from.value, kTag,
                      communicator(channel), &posted->requests.front()),
            "MPI_Irecv", posted->route);
  post_pieces(*posted, payload.size(), [&](std::uint64_t offset, int count, MPI_Request* request) {
    check_mpi(MPI_Irecv(payload.data() + offset, count, MPI_BYTE, from.value, kTag,
                        communicator(channel), request),
              "MPI_Irecv", posted->route);
  });
  return Operation(std::move(posted));
}

void MpiTransport::send_control(Rank to, const MessageHeader& header,
                                std::span<const std::byte> payload) {
  ensure(payload.size() <= kMaxControlBytes, "a control message is too large");
  auto posted = std::make_shared<Posted>();
  posted->route = {rank_, to, Channel::control};
  posted->wire = stamps_.stamp(posted->route, header, payload.size());
  posted->copy.resize(sizeof(MessageHeader) + payload.size());
  std::memcpy(posted->copy.data(), &posted->wire, sizeof(MessageHeader));
  if (!payload.empty()) {
    std::memcpy(posted->copy.data() + sizeof(MessageHeader), payload.data(), payload.size());
  }
  posted->requests.push_back(MPI_REQUEST_NULL);
  enqueue(sends_[index(to, Channel::control)], posted);
  check_mpi(MPI_Isend(posted->copy.data(), static_cast<int>(posted->copy.size()), MPI_BYTE,
                      to.value, kTag, communicator(Channel::control), &posted->requests.front()),
            "MPI_Isend", posted->route);
}

std::optional<ControlMessage> MpiTransport::try_receive_control() {
  if (control_.empty()) return std::nullopt;
  ControlMessage message = std::move(control_.front());
  control_.pop_front();
  return message;
}

// One call for all queues: each call that finds nothing makes MPI look through all its connections.
// True when anything was finished.
bool MpiTransport::test_fronts() {
  fronts_.clear();
  front_requests_.clear();
  for (Queue* queue : active_) {
    Posted& posted = *queue->front();
    if (posted.finished == posted.requests.size()) continue;  // on its emulated way
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
    Posted& posted = *fronts_[front];
    posted.requests[posted.finished] = front_requests_[front];
    if (code == MPI_ERR_IN_STATUS) check_mpi(status.MPI_ERROR, "MPI_Testsome", posted.route);
    finished_one(posted, status);
  }
  return count > 0;
}

void MpiTransport::finished_one(Posted& posted, const MPI_Status& status) {
  if (posted.incoming && posted.finished == 0) {
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count", posted.route);
    if (length != static_cast<int>(sizeof(MessageHeader))) {
      throw SystemError(format("%s: %d bytes came where a header of %zu was next",
                               to_string(posted.route).c_str(), length, sizeof(MessageHeader)));
    }
    check_arrival(posted.route, posted.wire, posted.bytes, posted.sequence);
  }
  ++posted.finished;
}

// Hands over what is finished, in order; true when the queue is empty.
bool MpiTransport::drain(Queue& queue) {
  while (!queue.empty()) {
    Posted& posted = *queue.front();
    if (posted.finished < posted.requests.size()) return false;
    if (posted.incoming && posted.wire.deliver_ns > now_ns()) return false;
    posted.header = posted.wire;
    posted.done = true;
    if (!posted.incoming) --outgoing_;
    queue.pop_front();
  }
  return true;
}

void MpiTransport::progress() {
  // The probe goes first: it takes in what has come, which MPI_Testsome does only after looking.
  probe_control();
  bool more = true;
  while (more) {
    more = test_fronts();
    std::erase_if(active_, [&](Queue* queue) { return drain(*queue); });
  }
  finish_control();
}

void MpiTransport::probe_control() {
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, kTag, communicator(Channel::control), &found, &message,
                          &status),
              "MPI_Improbe");
    if (found == 0) return;
    auto control = std::make_unique<IncomingControl>();
    control->route = {Rank{status.MPI_SOURCE}, rank_, Channel::control};
    int length = 0;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &length), "MPI_Get_count", control->route);
    control->bytes.resize(static_cast<std::size_t>(length));
    incoming_control_.push_back(std::move(control));
    IncomingControl& posted = *incoming_control_.back();
    check_mpi(MPI_Imrecv(posted.bytes.data(), length, MPI_BYTE, &message, &posted.request),
              "MPI_Imrecv", posted.route);
  }
}

void MpiTransport::finish_control() {
  while (!incoming_control_.empty()) {
    IncomingControl& incoming = *incoming_control_.front();
    int done = 0;
    check_mpi(MPI_Test(&incoming.request, &done, MPI_STATUS_IGNORE), "MPI_Test", incoming.route);
    if (done == 0) return;
    if (incoming.bytes.size() < sizeof(MessageHeader)) {
      throw SystemError(format("%s: a message of %zu bytes has no header",
                               to_string(incoming.route).c_str(), incoming.bytes.size()));
    }
    ControlMessage& message = control_.emplace_back();
    message.from = incoming.route.from;
    std::memcpy(&message.header, incoming.bytes.data(), sizeof(MessageHeader));
    check_arrival(incoming.route, message.header, incoming.bytes.size() - sizeof(MessageHeader),
                  receive_sequences_[index(message.from, Channel::control)]++);
    message.payload.assign(incoming.bytes.begin() + sizeof(MessageHeader), incoming.bytes.end());
    incoming_control_.pop_front();
  }
}

void MpiTransport::wait_for_exchange(MPI_Request request, const char* function) {
  int done = 0;
  wait_until([&] { return done != 0; },
             [&] {
               progress();
               check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), function);
             },
             options_.exchange_seconds,
             [&] {
               return format("all %d ranks to come to the exchange at start-up or shutdown (%s)",
                             ranks_, function);
             });
}

std::vector<std::vector<std::byte>> MpiTransport::exchange(std::span<const std::byte> mine) {
  ensure(exchange_ == nullptr, "an exchange after one that failed");
  exchange_ = std::make_unique<Exchange>();
  Exchange& e = *exchange_;
  e.own_size = mine.size();
  e.sizes.resize(static_cast<std::size_t>(ranks_));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&e.own_size, 1, MPI_UINT64_T, e.sizes.data(), 1, MPI_UINT64_T,
                           exchange_communicator_, &request),
            "MPI_Iallgather");
  wait_for_exchange(request, "MPI_Iallgather");

  const std::uint64_t total = std::accumulate(e.sizes.begin(), e.sizes.end(), std::uint64_t{0});
  if (total > INT_MAX) {
    throw SystemError(format("exchange among all ranks: %llu bytes together (at most 2^31 - 1)",
                             static_cast<unsigned long long>(total)));
  }
  int offset = 0;
  for (std::uint64_t size : e.sizes) {
    e.counts.push_back(static_cast<int>(size));
    e.offsets.push_back(offset);
    offset += e.counts.back();
  }
  e.own.assign(mine.begin(), mine.end());
  e.all.resize(total);
  check_mpi(MPI_Iallgatherv(e.own.data(), static_cast<int>(e.own.size()), MPI_BYTE, e.all.data(),
                            e.counts.data(), e.offsets.data(), MPI_BYTE, exchange_communicator_,
                            &request),
            "MPI_Iallgatherv");
  wait_for_exchange(request, "MPI_Iallgatherv");

  std::vector<std::vector<std::byte>> result;
  auto next = e.all.begin();
  for (int count : e.counts) {
    result.emplace_back(next, next + count);
    next += count;
  }
  exchange_ = nullptr;
  return result;
}

void MpiTransport::abort(int exit_code) {
  std::fflush(nullptr);
  const Watchdog watchdog(format("rank %d: MPI_Abort", rank_.value), kAbortSeconds, exit_code);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(Rank rank, int ranks, const MpiOptions& options) {
  return std::make_unique<MpiTransport>(rank, ranks, options);
}

}  // namespace hetpipe
