// SPDX-License-Identifier: Apache-2.0
#include "transport_scenarios.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/typed_message.h"
#include "runtime/transport/wait.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace {

using Bytes = std::vector<std::byte>;
constexpr Channel kDataChannels[] = {Channel::forward, Channel::backward, Channel::push,
                                     Channel::pull, Channel::checkpoint};

struct Fields {
  static constexpr std::int32_t kKind = 5;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int32_t c = 0;
  bool operator==(const Fields&) const = default;
};
static_assert(sizeof(Fields) == MessageHeader::kFieldBytes);
Fields fields_of(int number, Rank to) { return {3 * number, -number, to.value}; }

// Content that no other message has.
Bytes content(std::uint64_t key, std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; i += 4) {
    const std::uint32_t word = random_bits(key, i / 4);
    std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(4, size - i));
  }
  return bytes;
}

std::uint64_t key_of(Rank from, Rank to, Channel channel, int number) {
  return random_key({static_cast<std::uint64_t>(from.value), static_cast<std::uint64_t>(to.value),
                     static_cast<std::uint64_t>(channel), static_cast<std::uint64_t>(number)});
}

std::vector<Rank> all_ranks(const Transport& transport) {
  std::vector<Rank> ranks;
  for (int r = 0; r < transport.ranks(); ++r) ranks.push_back(Rank{r});
  return ranks;
}

Rank neighbour(const Transport& transport, int distance) {
  const int n = transport.ranks();
  return Rank{(transport.rank().value + distance % n + n) % n};
}

void wait_for(Transport& transport, const std::function<bool()>& ready, const char* what) {
  wait_until(
      ready, [&] { transport.progress(); }, test::patience(10), [&] { return std::string(what); });
}

void wait_for(Transport& transport, const Operation& operation, const char* what) {
  wait_for(
      transport, [&] { return operation.done(); }, what);
}

// Everything of this rank has left, and all ranks have come here.
void leave_together(Transport& transport) {
  wait_for(
      transport, [&] { return transport.idle(); }, "sends to complete");
  transport.exchange({});
}

enum class Late { no, yes };  // receives: posted before or after the messages came

// Every rank sends 20 messages to every rank on every channel, all outstanding at once.
void many_messages(Transport& transport, Late late) {
  constexpr int kMessages = 20;
  const auto size_of = [](int number) { return static_cast<std::size_t>(number * number * 37); };
  struct Incoming {
    Bytes bytes{};
    Operation operation{};
  };
  std::map<std::pair<Rank, Channel>, std::vector<Incoming>> incoming;
  const auto post_receives = [&] {
    for (Rank from : all_ranks(transport)) {
      for (Channel channel : kDataChannels) {
        auto& stream = incoming[{from, channel}];
        for (int i = 0; i < kMessages; ++i) {
          stream.push_back({Bytes(size_of(i)), Operation()});
          stream.back().operation = transport.receive(from, channel, stream.back().bytes);
        }
      }
    }
  };
  if (late == Late::no) post_receives();

  std::vector<Bytes> payloads;
  std::vector<Operation> sends;
  for (int i = 0; i < kMessages; ++i) {
    for (Channel channel : kDataChannels) {
      for (Rank to : all_ranks(transport)) {
        payloads.push_back(content(key_of(transport.rank(), to, channel, i), size_of(i)));
        const MessageHeader header = header_of(fields_of(i, to));
        sends.push_back(transport.send(to, channel, header, payloads.back()));
      }
    }
  }
  if (late == Late::yes) {
    transport.exchange({});
    post_receives();
  }

  const auto all_done = [&] {
    bool done = true;
    for (auto& [route, stream] : incoming) {
      bool earlier = true;  // done in order
      for (const Incoming& message : stream) {
        EXPECT_TRUE(earlier || !message.operation.done());
        earlier = message.operation.done();
      }
      done = done && earlier;
    }
    return done;
  };
  wait_for(transport, all_done, "all messages");
  for (auto& [route, stream] : incoming) {
    for (int i = 0; i < kMessages; ++i) {
      const Incoming& message = stream[static_cast<std::size_t>(i)];
      const MessageHeader& header = message.operation.header();
      EXPECT_EQ(header.kind, Fields::kKind);
      EXPECT_EQ(read_as<Fields>(header), fields_of(i, transport.rank()));
      EXPECT_EQ(header.bytes, size_of(i));
      EXPECT_EQ(header.sequence, static_cast<std::uint64_t>(i));
      EXPECT_EQ(header.deliver_ns, 0);
      EXPECT_EQ(message.bytes,
                content(key_of(route.first, transport.rank(), route.second, i), size_of(i)));
    }
  }
  leave_together(transport);
  for (const Operation& send : sends) EXPECT_TRUE(send.done());
}

// Around the borders of a piece, and far beyond: all sizes at once, in one stream around the ring.
void sizes(Transport& transport, const MakeClock&) {
  const std::vector<std::size_t> sizes{0,
                                       1,
                                       kTestPieceBytes - 1,
                                       kTestPieceBytes,
                                       kTestPieceBytes + 1,
                                       0,
                                       5 * kTestPieceBytes,
                                       12'345'678};
  const Rank to = neighbour(transport, 1);
  const Rank from = neighbour(transport, -1);
  std::vector<Bytes> sent;
  std::vector<Bytes> received;
  std::vector<Operation> operations;
  for (std::size_t size : sizes) {
    const int number = static_cast<int>(sent.size());
    sent.push_back(content(key_of(transport.rank(), to, Channel::push, number), size));
    received.emplace_back(size);
    operations.push_back(transport.receive(from, Channel::push, received.back()));
    operations.push_back(transport.send(to, Channel::push, {}, sent.back()));
  }
  for (const Operation& operation : operations) wait_for(transport, operation, "a size");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(received[i],
              content(key_of(from, transport.rank(), Channel::push, static_cast<int>(i)), sizes[i]))
        << sizes[i] << " bytes";
  }
  leave_together(transport);
}

// The transport cannot be used after it, so this ends without meeting.
void size_mismatch(Transport& transport, std::size_t sent_size, std::size_t posted_size) {
  // What was posted when a transport failed belongs to it for the rest of the job.
  static auto* kept = new std::deque<Bytes>;
  static std::mutex mutex;
  std::unique_lock lock(mutex);
  const Bytes& sent = kept->emplace_back(sent_size);
  Bytes& received = kept->emplace_back(posted_size);
  lock.unlock();
  transport.receive(neighbour(transport, -1), Channel::backward, received);
  transport.send(neighbour(transport, 1), Channel::backward, {}, sent);
  std::string error;
  try {
    wait_for(
        transport, [] { return false; }, "the size mismatch");
  } catch (const SystemError& caught) {
    error = caught.what();
  }
  EXPECT_THAT(error, testing::HasSubstr(format("has %zu bytes", sent_size)));
  EXPECT_THAT(error, testing::HasSubstr(format("and %zu were expected", posted_size)));
  EXPECT_THAT(error,
              testing::HasSubstr(format("rank %d -> rank %d, channel backward",
                                        neighbour(transport, -1).value, transport.rank().value)));
}

// From every rank to every rank, one of them of the largest size; in order per sender.
void control_from_anyone(Transport& transport, const MakeClock&) {
  constexpr int kMessages = 20;
  const auto size_of = [](int number) {
    return number == 7 ? std::size_t{1} << 20 : static_cast<std::size_t>(number) * 11;
  };
  for (int i = 0; i < kMessages; ++i) {
    for (Rank to : all_ranks(transport)) {
      const Bytes payload = content(key_of(transport.rank(), to, Channel::control, i), size_of(i));
      MessageHeader header = header_of(fields_of(i, to));
      header.kind = i;
      transport.send_control(to, header, payload);
    }
  }
  std::vector<int> next(static_cast<std::size_t>(transport.ranks()));
  int received = 0;
  const auto take = [&] {
    while (const auto message = transport.try_receive_control()) {
      const int number = next[static_cast<std::size_t>(message->from.value)]++;
      EXPECT_EQ(message->header.kind, number);
      MessageHeader header = message->header;
      header.kind = Fields::kKind;
      EXPECT_EQ(read_as<Fields>(header), fields_of(number, transport.rank()));
      EXPECT_EQ(message->header.deliver_ns, 0);
      EXPECT_EQ(message->payload,
                content(key_of(message->from, transport.rank(), Channel::control, number),
                        size_of(number)));
      ++received;
    }
    return received == kMessages * transport.ranks();
  };
  wait_for(transport, take, "control messages");
  leave_together(transport);
  transport.progress();
  EXPECT_FALSE(transport.try_receive_control().has_value());
}

void exchange(Transport& transport, const MakeClock&) {
  for (int round = 0; round < 10; ++round) {
    // Rank r of round i brings 1000·r·i bytes: none, different ones, many.
    const auto size_of = [&](Rank r) { return static_cast<std::size_t>(1000 * r.value * round); };
    const auto bytes_of = [&](Rank r) {
      return content(key_of(r, r, Channel::control, round), size_of(r));
    };
    const auto all = transport.exchange(bytes_of(transport.rank()));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(transport.ranks()));
    for (Rank r : all_ranks(transport)) {
      EXPECT_EQ(all[static_cast<std::size_t>(r.value)], bytes_of(r));
    }
  }
}

// Random traffic from all to all: receives are posted a few at a time, in another order on every
// rank.
void random_traffic(Transport& transport, const MakeClock&) {
  constexpr int kMessages = 60;
  const auto size_of = [](std::uint64_t key) {
    return std::size_t{random_bits(key, 1u << 30)} %
           (random_bits(key, 1u << 29) % 8 == 0 ? 3 * kTestPieceBytes : 3000);
  };
  struct Stream {
    Rank peer;
    Channel channel;
    int sent = 0;
    int received = 0;
    Bytes bytes{};
    Operation operation{};
  };
  std::vector<Stream> streams;
  for (Rank peer : all_ranks(transport)) {
    for (Channel channel : kDataChannels) streams.push_back({.peer = peer, .channel = channel});
  }
  std::vector<std::unique_ptr<Bytes>> payloads;
  std::uint64_t draw = 0;
  const auto act = [&](Stream& stream) {
    if (stream.sent < kMessages) {
      const auto key = key_of(transport.rank(), stream.peer, stream.channel, stream.sent);
      payloads.push_back(std::make_unique<Bytes>(content(key, size_of(key))));
      transport.send(stream.peer, stream.channel, {.kind = stream.sent++}, *payloads.back());
    }
    if (!stream.operation && stream.received < kMessages) {
      const auto key = key_of(stream.peer, transport.rank(), stream.channel, stream.received);
      stream.bytes.assign(size_of(key), std::byte{0});
      stream.operation = transport.receive(stream.peer, stream.channel, stream.bytes);
    } else if (stream.operation && stream.operation.done()) {
      const auto key = key_of(stream.peer, transport.rank(), stream.channel, stream.received);
      EXPECT_EQ(stream.operation.header().kind, stream.received);
      EXPECT_EQ(stream.bytes, content(key, size_of(key)));
      stream.operation = Operation();
      ++stream.received;
    }
  };
  const auto done = [&] {
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const auto seed = static_cast<std::uint64_t>(transport.rank().value);
      act(streams[random_bits(seed, draw++) % streams.size()]);
    }
    return std::all_of(streams.begin(), streams.end(), [](const Stream& stream) {
      return stream.sent == kMessages && stream.received == kMessages;
    });
  };
  wait_for(transport, done, "random traffic");
  leave_together(transport);
}

LinkTable empty_table(const Transport& transport, int resources) {
  LinkTable table{.ranks = transport.ranks(), .resources = resources, .links = {}};
  table.links.resize(static_cast<std::size_t>(transport.ranks() * transport.ranks()));
  return table;
}

void set_link(LinkTable& table, int from, int to, EmulatedLink link) {
  table.links[static_cast<std::size_t>(from * table.ranks + to)] = std::move(link);
}

std::int64_t exchange_from(Transport& transport, Rank from, std::int64_t mine) {
  const auto all = transport.exchange(std::as_bytes(std::span(&mine, 1)));
  std::int64_t value = 0;
  std::memcpy(&value, all[static_cast<std::size_t>(from.value)].data(), sizeof value);
  return value;
}

// Rank 0 sends three messages of 10 ms each over a link of 5 ms to rank 1; the way back is not
// emulated.
void emulated_link(Transport& transport, const MakeClock& make_clock) {
  constexpr std::int64_t kDuration = 10'000'000;
  constexpr std::int64_t kLatency = 5'000'000;
  LinkTable table = empty_table(transport, 1);
  set_link(table, 0, 1, {.bandwidth = 1e6, .latency = 5e-3, .resources = {0}});
  transport.emulate_links(table, make_clock(transport, 1));
  transport.exchange({});

  const int self = transport.rank().value;
  const Bytes payload(10'000);
  std::vector<Bytes> buffers(3, Bytes(10'000));
  std::int64_t before = 0;
  std::int64_t after = 0;
  if (self == 0) {
    const Operation back = transport.receive(Rank{1}, Channel::forward, buffers[0]);
    before = now_ns();
    for (int i = 0; i < 3; ++i) transport.send(Rank{1}, Channel::forward, {}, payload);
    after = now_ns();
    wait_for(transport, back, "the way back");
    EXPECT_EQ(back.header().deliver_ns, 0);
  }
  std::vector<std::int64_t> deliveries;
  if (self == 1) {
    transport.send(Rank{0}, Channel::forward, {}, payload);
    std::vector<Operation> receives;
    for (Bytes& buffer : buffers) {
      receives.push_back(transport.receive(Rank{0}, Channel::forward, buffer));
    }
    for (const Operation& receive : receives) {
      wait_for(transport, receive, "an emulated message");
      deliveries.push_back(receive.header().deliver_ns);
      EXPECT_GE(now_ns(), deliveries.back());
    }
  }
  before = exchange_from(transport, Rank{0}, before);
  after = exchange_from(transport, Rank{0}, after);
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    const std::int64_t queue = static_cast<std::int64_t>(i + 1) * kDuration;
    EXPECT_GE(deliveries[i], before + queue + kLatency);
    EXPECT_LE(deliveries[i], after + queue + kLatency);
  }
  leave_together(transport);
}

// Ranks 0 and 1 send 20 ms each to rank 2 at once. Over one interface the second ends after 40 ms;
// over two, both after 20.
void two_senders(Transport& transport, const MakeClock& make_clock, int interfaces) {
  constexpr std::int64_t kDuration = 20'000'000;
  LinkTable table = empty_table(transport, 2);
  set_link(table, 0, 2, {.bandwidth = 1e6, .latency = 0, .resources = {0}});
  set_link(table, 1, 2, {.bandwidth = 1e6, .latency = 0, .resources = {interfaces - 1}});
  transport.emulate_links(table, make_clock(transport, 2));
  transport.exchange({});

  const int self = transport.rank().value;
  const Bytes payload(20'000);
  Bytes buffers[2] = {Bytes(20'000), Bytes(20'000)};
  const std::int64_t before = now_ns();
  if (self < 2) transport.send(Rank{2}, Channel::push, {}, payload);
  const std::int64_t after = now_ns();
  std::int64_t last = 0;
  if (self == 2) {
    const Operation receives[2] = {transport.receive(Rank{0}, Channel::push, buffers[0]),
                                   transport.receive(Rank{1}, Channel::push, buffers[1])};
    for (const Operation& receive : receives) {
      wait_for(transport, receive, "an emulated message");
      EXPECT_GE(now_ns(), receive.header().deliver_ns);
      last = std::max(last, receive.header().deliver_ns);
    }
  }
  const std::int64_t first_ready = std::min(exchange_from(transport, Rank{0}, before),
                                            exchange_from(transport, Rank{1}, before));
  const std::int64_t last_ready =
      std::max(exchange_from(transport, Rank{0}, after), exchange_from(transport, Rank{1}, after));
  if (self == 2) {
    const std::int64_t needed = interfaces == 1 ? 2 * kDuration : kDuration;
    EXPECT_GE(last, first_ready + needed);
    EXPECT_LE(last, last_ready + needed);
  }
  leave_together(transport);
}

std::vector<Scenario> make_scenarios() {
  const auto mismatch = [](std::size_t sent, std::size_t posted) {
    return [=](Transport& t, const MakeClock&) { size_mismatch(t, sent, posted); };
  };
  return {
      {"ManyMessages", 1, [](Transport& t, const MakeClock&) { many_messages(t, Late::no); }},
      {"LateReceives", 1, [](Transport& t, const MakeClock&) { many_messages(t, Late::yes); }},
      {"Sizes", 1, sizes},
      {"MoreThanPosted", 1, mismatch(100, 50)},
      {"LessThanPosted", 1, mismatch(50, 100)},
      {"NothingWherePosted", 1, mismatch(0, 10)},
      {"SomethingWhereNothingPosted", 1, mismatch(10, 0)},
      {"MorePiecesThanPosted", 1, mismatch(3 * kTestPieceBytes, kTestPieceBytes)},
      {"ControlFromAnyone", 1, control_from_anyone},
      {"Exchange", 1, exchange},
      {"RandomTraffic", 1, random_traffic},
      {"EmulatedLink", 2, emulated_link},
      {"OneInterface", 3, [](Transport& t, const MakeClock& make) { two_senders(t, make, 1); }},
      {"TwoInterfaces", 3, [](Transport& t, const MakeClock& make) { two_senders(t, make, 2); }},
  };
}

}  // namespace

const std::vector<Scenario>& transport_scenarios() {
  static const std::vector<Scenario> scenarios = make_scenarios();
  return scenarios;
}

}  // namespace hetpipe
