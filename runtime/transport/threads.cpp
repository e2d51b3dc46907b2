// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/stamps.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

struct Mail {
  Route route;
  MessageHeader header;
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

struct Posted : Operation::State {
  std::span<std::byte> payload;
};

// One (from, channel): what has come and what is waited for, both in order.
struct Stream {
  std::deque<Mail> arrived;
  std::deque<std::shared_ptr<Posted>> posted;
  std::uint64_t next_sequence = 0;
};

class ThreadsTransport : public Transport {
 public:
  ThreadsTransport(std::shared_ptr<Hall> hall, Rank rank)
      : hall_(std::move(hall)),
        rank_(rank),
        stamps_(rank, hall_->ranks),
        streams_(static_cast<std::size_t>(hall_->ranks * kChannels)) {}

  Rank rank() const override { return rank_; }
  int ranks() const override { return hall_->ranks; }

  void emulate_links(LinkTable table, std::shared_ptr<LinkClock> clock) override {
    stamps_.emulate(std::move(table), std::move(clock));
  }

  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> payload) override {
    ensure(channel != Channel::control, "control messages go through send_control");
    post(to, channel, header, payload);
    auto state = std::make_shared<Operation::State>();
    state->done = true;  // the payload was copied
    return Operation(std::move(state));
  }

  Operation receive(Rank from, Channel channel, std::span<std::byte> payload) override {
    ensure(channel != Channel::control, "control messages come from try_receive_control");
    ensure(0 <= from.value && from.value < ranks(), "receive from a rank outside the job");
    auto state = std::make_shared<Posted>();
    state->payload = payload;
    const std::size_t index = stream_index(from, channel);
    if (streams_[index].posted.empty()) active_.push_back(index);
    streams_[index].posted.push_back(state);
    return Operation(std::move(state));
  }

  void send_control(Rank to, const MessageHeader& header,
                    std::span<const std::byte> payload) override {
    ensure(payload.size() <= kMaxControlBytes, "a control message is too large");
    post(to, Channel::control, header, payload);
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
    collect();
    std::erase_if(active_, [&](std::size_t index) { return deliver(streams_[index]); });
  }

  bool idle() const override { return true; }

  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override;

  void abort(int) override {
    int none = -1;
    hall_->failed.compare_exchange_strong(none, rank_.value, std::memory_order_acq_rel);
  }

 private:
  static std::size_t stream_index(Rank from, Channel channel) {
    return static_cast<std::size_t>(from.value * kChannels + static_cast<int>(channel));
  }

  void post(Rank to, Channel channel, const MessageHeader& header,
            std::span<const std::byte> payload) {
    Mail mail{.route = {rank_, to, channel}, .header = {}, .payload = nullptr};
    mail.header = stamps_.stamp(mail.route, header, payload.size());
    if (!payload.empty()) {
      mail.payload = std::make_unique_for_overwrite<std::byte[]>(payload.size());
      std::memcpy(mail.payload.get(), payload.data(), payload.size());
    }
    Mailbox& box = hall_->mailboxes[static_cast<std::size_t>(to.value)];
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
      Stream& stream = streams_[stream_index(mail.route.from, mail.route.channel)];
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
  bool deliver(Stream& stream) {
    while (!stream.posted.empty() && !stream.arrived.empty()) {
      Mail& mail = stream.arrived.front();
      Posted& posted = *stream.posted.front();
      check_arrival(mail.route, mail.header, posted.payload.size(), stream.next_sequence);
      if (mail.header.deliver_ns > now_ns()) return false;
      if (!posted.payload.empty()) {
        std::memcpy(posted.payload.data(), mail.payload.get(), posted.payload.size());
      }
      posted.header = mail.header;
      posted.done = true;
      ++stream.next_sequence;
      stream.arrived.pop_front();
      stream.posted.pop_front();
    }
    return stream.posted.empty();
  }

  std::shared_ptr<Hall> hall_;
  Rank rank_;
  OutgoingStamps stamps_;
  std::vector<Stream> streams_;      // [from * kChannels + channel]
  std::vector<std::size_t> active_;  // streams with posted receives
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
