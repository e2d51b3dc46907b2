// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/stamps.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kUsualPiece = std::uint64_t{512} << 20;

// A piece of a message; the first one brings the header.
struct Mail {
  Route route;
  bool first = true;
  MessageHeader header;
  std::uint64_t bytes = 0;
  std::unique_ptr<std::byte[]> payload;
};

// Where other ranks leave what they send to one rank; its owner empties it in progress().
struct Mailbox {
  std::mutex mutex;
  std::vector<Mail> mail;           // under mutex
  std::atomic<bool> filled{false};  // so that an empty box is seen without the lock
};

struct ExchangeRound {
  std::vector<std::vector<std::byte>> given;
  std::vector<bool> came;
  int arrived = 0;
  int left = 0;
};

// What all ranks of the process share.
struct Hall {
  explicit Hall(int count)
      : ranks(count), mailboxes(std::make_unique<Mailbox[]>(std::size_t(count))) {}

  const int ranks;
  std::unique_ptr<Mailbox[]> mailboxes;
  std::atomic<int> failed{-1};  // the first rank that aborted
  std::mutex exchange_mutex;
  std::map<std::int64_t, ExchangeRound> rounds;  // under exchange_mutex
};

// Where a payload lies: in one piece, or in many.
struct Payload {
  std::byte* memory = nullptr;  // sends only read it
  std::shared_ptr<PayloadPieces> pieces;
  std::uint64_t bytes = 0;
  std::byte* at(std::uint64_t offset, std::uint64_t piece) const {
    return pieces == nullptr ? memory + offset : pieces->next(offset, piece);
  }
  void finished(std::uint64_t offset, std::uint64_t piece) const {
    if (pieces != nullptr) pieces->finished(offset, piece);
  }
};

struct Incoming : Operation::State {
  Payload payload;
  bool begun = false;  // its header has come
  std::uint64_t arrived = 0;
};

struct Outgoing : Operation::State {
  Route route;
  Payload payload;
  bool begun = false;
  std::uint64_t left = 0;
};

// One (from, channel): what has come and what is waited for, both in order.
struct MailStream {
  std::deque<Mail> arrived;
  std::deque<std::shared_ptr<Incoming>> posted;
  std::uint64_t next_sequence = 0;
};

class ThreadsTransport : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Hall> hall, Rank rank)
      : hall_(std::move(hall)),
        rank_(rank),
        stamps_(rank, hall_->ranks),
        sizes_(hall_->ranks, kUsualPiece),
        outgoing_(static_cast<std::size_t>(hall_->ranks * kChannels)),
        streams_(static_cast<std::size_t>(hall_->ranks * kChannels)) {}

  Rank rank() const override { return rank_; }
  int ranks() const override { return hall_->ranks; }

  void emulate_links(LinkTable table, std::shared_ptr<LinkClock> clock) override {
    stamps_.emulate(std::move(table), std::move(clock));
  }

  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> payload) override {
    return send_payload(to, channel, header,
                        {const_cast<std::byte*>(payload.data()), nullptr, payload.size()});
  }
  Operation send(Rank to, Channel channel, const MessageHeader& header, std::uint64_t bytes,
                 std::shared_ptr<PayloadPieces> pieces) override {
    return send_payload(to, channel, header, {nullptr, std::move(pieces), bytes});
  }

  Operation receive(Rank from, Channel channel, std::span<std::byte> payload) override {
    return receive_payload(from, channel, {payload.data(), nullptr, payload.size()});
  }
  Operation receive(Rank from, Channel channel, std::uint64_t bytes,
                    std::shared_ptr<PayloadPieces> pieces) override {
    return receive_payload(from, channel, {nullptr, std::move(pieces), bytes});
  }

  void set_piece_bytes(Rank peer, std::uint64_t bytes) override { sizes_.set(peer, bytes); }
  std::uint64_t piece_bytes(Rank peer, Channel channel) const override {
    return sizes_.of(peer, channel);
  }

  void send_control(Rank to, const MessageHeader& header,
                    std::span<const std::byte> payload) override {
    ensure(payload.size() <= kMaxControlBytes, "a control message is too large");
    const Route route{rank_, to, Channel::control};
    post(route, stamps_.stamp(route, header, payload.size()), true, payload);
  }

  std::optional<ControlMessage> try_receive_control() override {
    if (control_.empty()) return std::nullopt;
    ControlMessage message = std::move(control_.front());
    control_.pop_front();
    return message;
  }

  void progress() override {
    const int failed = hall_->failed.load(std::memory_order_acquire);
    if (failed >= 0 && failed != rank_.value) {
      throw SystemError(format("rank %d failed", failed));
    }
    std::erase_if(leaving_, [&](std::size_t index) { return leave(outgoing_[index]); });
    collect();
    std::erase_if(active_, [&](std::size_t index) { return deliver(streams_[index]); });
  }

  bool idle() const override { return leaving_.empty(); }

  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override;

  void abort(int) override {
    int none = -1;
    hall_->failed.compare_exchange_strong(none, rank_.value, std::memory_order_acq_rel);
  }

 private:
  static std::size_t stream_index(Rank from, Channel channel) {
    return static_cast<std::size_t>(from.value * kChannels + static_cast<int>(channel));
  }

  // Copied at once as far as it is there and nothing waits before it.
  Operation send_payload(Rank to, Channel channel, const MessageHeader& header, Payload payload) {
    ensure(channel != Channel::control, "control messages go through send_control");
    ensure(0 <= to.value && to.value < ranks(), "send to a rank outside the job");
    auto message = std::make_shared<Outgoing>();
    message->route = {rank_, to, channel};
    message->header = header;
    message->payload = std::move(payload);
    const std::size_t index = stream_index(to, channel);
    auto& queue = outgoing_[index];
    queue.push_back(message);
    if (queue.size() == 1 && !leave(queue)) leaving_.push_back(index);
    return Operation(std::move(message));
  }

  Operation receive_payload(Rank from, Channel channel, Payload payload) {
    ensure(channel != Channel::control, "control messages come from try_receive_control");
    ensure(0 <= from.value && from.value < ranks(), "receive from a rank outside the job");
    auto message = std::make_shared<Incoming>();
    message->payload = std::move(payload);
    const std::size_t index = stream_index(from, channel);
    if (streams_[index].posted.empty()) active_.push_back(index);
    streams_[index].posted.push_back(message);
    return Operation(std::move(message));
  }

  // Posts what is there of the messages to one rank on one channel; true when all have left.
  bool leave(std::deque<std::shared_ptr<Outgoing>>& queue) {
    for (; !queue.empty(); queue.pop_front()) {
      Outgoing& message = *queue.front();
      const Payload& payload = message.payload;
      const std::uint64_t size = sizes_.of(message.route.to, message.route.channel);
      do {
        const std::uint64_t bytes = std::min(size, payload.bytes - message.left);
        const std::byte* const memory = bytes == 0 ? nullptr : payload.at(message.left, bytes);
        if (bytes > 0 && memory == nullptr) return false;
        const bool first = !std::exchange(message.begun, true);
        if (first) message.header = stamps_.stamp(message.route, message.header, payload.bytes);
        post(message.route, message.header, first, {memory, bytes});
        if (bytes > 0) payload.finished(message.left, bytes);
        message.left += bytes;
      } while (message.left < payload.bytes);
      message.done = true;
    }
    return true;
  }

  void post(const Route& route, const MessageHeader& header, bool first,
            std::span<const std::byte> piece) {
    Mail mail{route, first, header, piece.size(), nullptr};
    if (!piece.empty()) {
      mail.payload = std::make_unique_for_overwrite<std::byte[]>(piece.size());
      std::memcpy(mail.payload.get(), piece.data(), piece.size());
    }
    Mailbox& box = hall_->mailboxes[static_cast<std::size_t>(route.to.value)];
    const std::lock_guard lock(box.mutex);
    box.mail.push_back(std::move(mail));
    box.filled.store(true, std::memory_order_release);
  }

  // Empties the mailbox into the streams.
  void collect() {
    Mailbox& box = hall_->mailboxes[static_cast<std::size_t>(rank_.value)];
    if (!box.filled.load(std::memory_order_acquire)) return;
    {
      const std::lock_guard lock(box.mutex);
      collected_.swap(box.mail);
      box.filled.store(false, std::memory_order_release);
    }
    for (Mail& mail : collected_) {
      MailStream& stream = streams_[stream_index(mail.route.from, mail.route.channel)];
      if (mail.route.channel != Channel::control) {
        stream.arrived.push_back(std::move(mail));
        continue;
      }
      check_sequence(mail.route, mail.header, stream.next_sequence++);
      ControlMessage& message = control_.emplace_back();
      message.from = mail.route.from;
      message.header = mail.header;
      message.payload.assign(mail.payload.get(), mail.payload.get() + mail.header.bytes);
    }
    collected_.clear();
  }

  // Hands over what has come in order; true when nothing is waited for any more.
  bool deliver(MailStream& stream) {
    while (!stream.posted.empty()) {
      Incoming& message = *stream.posted.front();
      if (!take_pieces(stream, message)) return false;
      if (message.header.deliver_ns > now_ns()) return false;
      message.done = true;
      stream.posted.pop_front();
    }
    return true;
  }

  // Of the first message waited for; true when all of it is there.
  bool take_pieces(MailStream& stream, Incoming& message) {
    const Payload& payload = message.payload;
    while (!message.begun || message.arrived < payload.bytes) {
      if (stream.arrived.empty()) return false;
      const Mail& mail = stream.arrived.front();
      if (!message.begun) {
        ensure(mail.first, "a piece where a message should begin");
        check_arrival(mail.route, mail.header, payload.bytes, stream.next_sequence++);
        message.header = mail.header;
        message.begun = true;
      }
      if (mail.bytes > 0) {
        std::byte* const memory = payload.at(message.arrived, mail.bytes);
        if (memory == nullptr) return false;
        std::memcpy(memory, mail.payload.get(), mail.bytes);
        payload.finished(message.arrived, mail.bytes);
        message.arrived += mail.bytes;
      }
      stream.arrived.pop_front();
    }
    return true;
  }

  std::shared_ptr<Hall> hall_;
  Rank rank_;
  OutgoingStamps stamps_;
  PieceSizes sizes_;
  std::vector<std::deque<std::shared_ptr<Outgoing>>> outgoing_;  // [to * kChannels + channel]
  std::vector<std::size_t> leaving_;                             // those that are not empty
  std::vector<MailStream> streams_;                              // [from * kChannels + channel]
  std::vector<std::size_t> active_;                              // streams with posted receives
  std::vector<Mail> collected_;
  std::deque<ControlMessage> control_;
  std::int64_t exchanges_ = 0;
};

std::vector<std::vector<std::byte>> ThreadsTransport::exchange(std::span<const std::byte> mine) {
  const std::int64_t number = exchanges_++;
  const std::size_t self = static_cast<std::size_t>(rank_.value);
  const auto with_round = [&](const auto& act) {
    const std::lock_guard lock(hall_->exchange_mutex);
    return act(hall_->rounds[number]);
  };
  with_round([&](ExchangeRound& round) {
    round.given.resize(static_cast<std::size_t>(ranks()));
    round.came.resize(static_cast<std::size_t>(ranks()));
    round.given[self].assign(mine.begin(), mine.end());
    round.came[self] = true;
    ++round.arrived;
  });
  const auto missing = [&] {
    return with_round([&](const ExchangeRound& round) {
      std::vector<std::string> names;
      for (int r = 0; r < ranks(); ++r) {
        if (!round.came[static_cast<std::size_t>(r)]) names.push_back(format("rank %d", r));
      }
      return "the exchange among all ranks at start-up or shutdown; missing: " + join(names, ", ");
    });
  };
  wait_until(
      [&] {
        return with_round([&](const ExchangeRound& round) { return round.arrived == ranks(); });
      },
      [&] { progress(); }, kExchangeSeconds, missing);
  auto all = with_round([&](ExchangeRound& round) {
    ++round.left;
    return round.given;
  });
  const std::lock_guard lock(hall_->exchange_mutex);
  const auto round = hall_->rounds.find(number);
  if (round != hall_->rounds.end() && round->second.left == ranks()) hall_->rounds.erase(round);
  return all;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_threads_transports(int ranks) {
  ensure(ranks > 0, "a job needs a rank");
  auto hall = std::make_shared<Hall>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int r = 0; r < ranks; ++r) {
    transports.push_back(std::make_unique<ThreadsTransport>(hall, Rank{r}));
  }
  return transports;
}

}  // namespace hetpipe
