// SPDX-License-Identifier: Apache-2.0
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
#include "base/keep_for_ever.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/mpi_parts.h"
#include "runtime/transport/mpi_queues.h"
#include "runtime/transport/mpi_watchdog.h"
#include "runtime/transport/pmix_exchange.h"
#include "runtime/transport/stamps.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr double kAbortSeconds = 10;

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
  Operation send(Rank to, Channel channel, const MessageHeader& header, std::uint64_t bytes,
                 std::shared_ptr<PayloadPieces> pieces) override;
  Operation receive(Rank from, Channel channel, std::uint64_t bytes,
                    std::shared_ptr<PayloadPieces> pieces) override;
  void set_piece_bytes(Rank peer, std::uint64_t bytes) override { sizes_.set(peer, bytes); }
  std::uint64_t piece_bytes(Rank peer, Channel channel) const override {
    return sizes_.of(peer, channel);
  }
  void send_control(Rank to, const MessageHeader& header,
                    std::span<const std::byte> payload) override;
  std::optional<ControlMessage> try_receive_control() override;
  void progress() override;
  bool idle() const override { return queues_.idle(); }
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override;
  void abort(int exit_code) override;

 private:
  std::size_t index(Rank peer, Channel channel) const {
    return static_cast<std::size_t>(peer.value * kChannels + static_cast<int>(channel));
  }
  MPI_Comm communicator(Channel channel) const {
    return communicators_[static_cast<std::size_t>(channel)];
  }
  std::shared_ptr<MpiMessage> outgoing(Rank to, Channel channel, const MessageHeader& header,
                                       std::uint64_t bytes) const;
  std::shared_ptr<MpiMessage> incoming(Rank from, Channel channel, std::uint64_t bytes);
  void probe_control();
  void finish_control();
  void wait_for_exchange(MPI_Request request, const char* function);

  Rank rank_;
  int ranks_;
  MpiOptions options_;
  OutgoingStamps stamps_;
  PieceSizes sizes_;
  // Freed by MPI_Finalize alone: Open MPI keeps a late message of a freed communicator for the next
  // one that gets its number.
  MpiCommunicators communicators_;
  MPI_Comm exchange_communicator_ = MPI_COMM_NULL;
  std::unique_ptr<PmixExchange> launcher_;  // in its place
  MpiQueues queues_;
  std::vector<std::uint64_t> receive_sequences_;
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
      sizes_(ranks, options.piece_bytes),
      queues_(ranks, communicators_, stamps_),
      receive_sequences_(static_cast<std::size_t>(ranks * kChannels)) {
  ensure(0 < options.piece_bytes && options.piece_bytes <= INT_MAX,
         "piece size outside MPI's counts");
  if (options.meet_by == MeetBy::launcher) {
    launcher_ = std::make_unique<PmixExchange>(rank, ranks);
    communicators_.fill(MPI_COMM_WORLD);
    return;
  }
  for (MPI_Comm& communicator : communicators_) communicator = duplicate_world();
  exchange_communicator_ = duplicate_world();
}

MpiTransport::~MpiTransport() {
  for (auto& control : incoming_control_) {
    if (control->request != MPI_REQUEST_NULL) MPI_Request_free(&control->request);
    keep_for_ever(std::move(control));
  }
  if (exchange_ != nullptr) keep_for_ever(std::move(exchange_));
}

std::shared_ptr<MpiMessage> MpiTransport::outgoing(Rank to, Channel channel,
                                                   const MessageHeader& header,
                                                   std::uint64_t bytes) const {
  ensure(channel != Channel::control, "control messages go through send_control");
  ensure(0 <= to.value && to.value < ranks_, "send to a rank outside the job");
  auto posted = std::make_shared<MpiMessage>();
  posted->route = {rank_, to, channel};
  posted->bytes = bytes;
  posted->piece_bytes = sizes_.of(to, channel);
  posted->wire = header;
  return posted;
}

std::shared_ptr<MpiMessage> MpiTransport::incoming(Rank from, Channel channel,
                                                   std::uint64_t bytes) {
  ensure(channel != Channel::control, "control messages come from try_receive_control");
  ensure(0 <= from.value && from.value < ranks_, "receive from a rank outside the job");
  auto posted = std::make_shared<MpiMessage>();
  posted->route = {from, rank_, channel};
  posted->incoming = true;
  posted->bytes = bytes;
  posted->piece_bytes = sizes_.of(from, channel);
  posted->sequence = receive_sequences_[index(from, channel)]++;
  return posted;
}

Operation MpiTransport::send(Rank to, Channel channel, const MessageHeader& header,
                             std::span<const std::byte> payload) {
  std::shared_ptr<MpiMessage> posted = outgoing(to, channel, header, payload.size());
  posted->payload = const_cast<std::byte*>(payload.data());
  return queues_.add(std::move(posted));
}

Operation MpiTransport::send(Rank to, Channel channel, const MessageHeader& header,
                             std::uint64_t bytes, std::shared_ptr<PayloadPieces> pieces) {
  std::shared_ptr<MpiMessage> posted = outgoing(to, channel, header, bytes);
  posted->pieces = std::move(pieces);
  return queues_.add(std::move(posted));
}

Operation MpiTransport::receive(Rank from, Channel channel, std::span<std::byte> payload) {
  std::shared_ptr<MpiMessage> posted = incoming(from, channel, payload.size());
  posted->payload = payload.data();
  return queues_.add(std::move(posted));
}

Operation MpiTransport::receive(Rank from, Channel channel, std::uint64_t bytes,
                                std::shared_ptr<PayloadPieces> pieces) {
  std::shared_ptr<MpiMessage> posted = incoming(from, channel, bytes);
  posted->pieces = std::move(pieces);
  return queues_.add(std::move(posted));
}

void MpiTransport::send_control(Rank to, const MessageHeader& header,
                                std::span<const std::byte> payload) {
  ensure(payload.size() <= kMaxControlBytes, "a control message is too large");
  auto posted = std::make_shared<MpiMessage>();
  posted->route = {rank_, to, Channel::control};
  posted->wire = stamps_.stamp(posted->route, header, payload.size());
  posted->copy.resize(sizeof(MessageHeader) + payload.size());
  std::memcpy(posted->copy.data(), &posted->wire, sizeof(MessageHeader));
  if (!payload.empty()) {
    std::memcpy(posted->copy.data() + sizeof(MessageHeader), payload.data(), payload.size());
  }
  posted->requests.push_back(MPI_REQUEST_NULL);  // and so all is posted
  check_mpi(MPI_Isend(posted->copy.data(), static_cast<int>(posted->copy.size()), MPI_BYTE,
                      to.value, mpi_tag(Channel::control), communicator(Channel::control),
                      &posted->requests.front()),
            "MPI_Isend", posted->route);
  queues_.add(std::move(posted));
}

std::optional<ControlMessage> MpiTransport::try_receive_control() {
  if (control_.empty()) return std::nullopt;
  ControlMessage message = std::move(control_.front());
  control_.pop_front();
  return message;
}

void MpiTransport::progress() {
  // The probe goes first: it takes in what has come, which MPI_Testsome does only after looking.
  probe_control();
  queues_.progress();
  finish_control();
}

void MpiTransport::probe_control() {
  for (;;) {
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(MPI_Improbe(MPI_ANY_SOURCE, mpi_tag(Channel::control), communicator(Channel::control),
                          &found, &message, &status),
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
               return format("all %d ranks to join the exchange at start-up or shutdown (%s)",
                             ranks_, function);
             });
}

std::vector<std::vector<std::byte>> MpiTransport::exchange(std::span<const std::byte> mine) {
  if (launcher_ != nullptr) {
    return launcher_->exchange(mine, options_.exchange_seconds, [this] { progress(); });
  }
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
  remove_temporary_files();
  const Watchdog watchdog(format("rank %d: MPI_Abort", rank_.value), kAbortSeconds, exit_code);
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  std::_Exit(exit_code);
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(Rank rank, int ranks, const MpiOptions& options) {
  return std::make_unique<MpiTransport>(rank, ranks, options);
}

}  // namespace hetpipe
