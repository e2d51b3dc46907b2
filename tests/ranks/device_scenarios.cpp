// SPDX-License-Identifier: Apache-2.0
#include "device_scenarios.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "base/random.h"
#include "device_rank.h"
#include "runtime/transport/wait.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kPiece = 16 * 1024;

void small_pieces(Transport& transport) {
  for (int r = 0; r < transport.ranks(); ++r) transport.set_piece_bytes(Rank{r}, kPiece);
}

void wait_for(Transport& transport, const std::function<bool()>& ready, const char* what) {
  wait_until(
      ready, [&] { transport.progress(); }, test::patience(10), [&] { return std::string(what); });
}

void leave_together(Transport& transport) {
  wait_for(
      transport, [&] { return transport.idle(); }, "sends to complete");
  transport.exchange({});
}

// Memory in one place, given out up to a bound.
struct Bounded : PayloadPieces {
  explicit Bounded(Bytes payload) : bytes(std::move(payload)) {}
  std::byte* next(std::uint64_t offset, std::uint64_t size) override {
    EXPECT_EQ(offset, asked);
    if (offset + size > there) return nullptr;
    asked += size;
    return bytes.data() + offset;
  }
  void finished(std::uint64_t offset, std::uint64_t size) override {
    EXPECT_EQ(offset, over);
    over += size;
  }
  Bytes bytes;
  std::uint64_t there = 0;
  std::uint64_t asked = 0;
  std::uint64_t over = 0;
};

// A piece is there for the receiver before the sender has the next one: each waits for the other's
// word after every piece, so whoever keeps pieces back until all are there hangs.
void piece_by_piece(Transport& transport, const MakeClock&) {
  small_pieces(transport);
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  const std::uint64_t size = 5 * kPiece + 100;
  const auto out = std::make_shared<Bounded>(content(1, size));
  const auto in = std::make_shared<Bounded>(Bytes(size));
  const Operation receive = transport.receive(from, Channel::push, size, in);
  const Operation send = transport.send(to, Channel::push, {.kind = 7}, size, out);
  // Behind it in its stream, and so behind it in time; in another one before it.
  std::byte behind{}, beside{}, one{1};
  const Operation later = transport.receive(from, Channel::push, {&behind, 1});
  const Operation other = transport.receive(from, Channel::pull, {&beside, 1});
  transport.send(to, Channel::push, {.kind = 8}, {&one, 1});
  transport.send(to, Channel::pull, {.kind = 9}, {&one, 1});
  wait_for(
      transport, [&] { return other.done(); }, "a message of another channel");
  for (std::uint64_t piece = 1; piece <= 6; ++piece) {
    EXPECT_FALSE(receive.done() || send.done() || later.done());
    in->there = out->there = std::min(size, piece * kPiece);
    wait_for(
        transport, [&] { return in->over == in->there && out->over == out->there; }, "a piece");
    transport.exchange({});
  }
  wait_for(
      transport, [&] { return receive.done() && send.done() && later.done(); }, "the rest");
  EXPECT_EQ(in->bytes, content(1, size));
  EXPECT_EQ(receive.header().kind, 7);
  EXPECT_EQ(receive.header().bytes, size);
  EXPECT_EQ(later.header().kind, 8);
  leave_together(transport);
}

// Either end may have its payload in one piece.
void whole_and_in_pieces(Transport& transport, const MakeClock&) {
  small_pieces(transport);
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  const std::uint64_t size = 3 * kPiece;
  const auto out = std::make_shared<Bounded>(content(2, size));
  const auto in = std::make_shared<Bounded>(Bytes(size));
  Bytes whole(size);
  const Bytes sent = content(3, size);
  const Operation operations[] = {transport.receive(from, Channel::reduce, whole),
                                  transport.receive(from, Channel::reduce, size, in),
                                  transport.send(to, Channel::reduce, {}, size, out),
                                  transport.send(to, Channel::reduce, {}, sent)};
  in->there = out->there = size;
  for (const Operation& operation : operations) {
    wait_for(
        transport, [&] { return operation.done(); }, "a message");
  }
  EXPECT_EQ(whole, content(2, size));
  EXPECT_EQ(in->bytes, content(3, size));
  leave_together(transport);
}

// Around the borders of a piece and of what a lane has under way.
const std::vector<std::size_t> kSizes{
    0, 1, kPiece - 1, kPiece, kPiece + 1, 0, 5 * kPiece, 100 * kPiece + 3, 4, 77'777, 12'345'678};

std::uint64_t key_of(Rank from, Channel channel, std::size_t i) {
  return random_key({static_cast<std::uint64_t>(from.value), static_cast<std::uint64_t>(channel),
                     static_cast<std::uint64_t>(i)});
}

void device_sizes(Transport& transport, const MakeClock&) {
  small_pieces(transport);
  DeviceRank rank(transport);
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  std::deque<Buffer> sources, targets;
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    targets.emplace_back(*rank.device, *rank.stream, kSizes[i], MemoryKind::messages);
    operations.push_back(
        rank.messages.receive(from, Channel::forward, {targets.back().data(), kSizes[i]}));
    sources.push_back(
        rank.filled(content(key_of(transport.rank(), Channel::forward, i), kSizes[i])));
    operations.push_back(rank.messages.send(to, Channel::forward, {.kind = static_cast<int>(i)},
                                            {sources.back().data(), kSizes[i]}));
  }
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    rank.wait([&] { return operations[2 * i].done(); }, "a size");
    EXPECT_EQ(operations[2 * i].header().kind, static_cast<int>(i));
    EXPECT_EQ(rank.read(targets[i]), content(key_of(from, Channel::forward, i), kSizes[i]))
        << kSizes[i] << " bytes";
  }
  rank.leave();
  for (const Operation& operation : operations) EXPECT_TRUE(operation.done());
}

// The host's memory at one end, as at a parameter server.
void host_and_device(Transport& transport, const MakeClock&) {
  small_pieces(transport);
  DeviceRank rank(transport);
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  const std::size_t size = 9 * kPiece + 5;
  Bytes at_host(size);
  const Bytes from_host = content(key_of(transport.rank(), Channel::pull, 0), size);
  const Bytes small = content(key_of(transport.rank(), Channel::push, 1), 11);
  Bytes small_came(11);
  Buffer at_device(*rank.device, *rank.stream, size, MemoryKind::messages);
  const Buffer from_device = rank.filled(content(key_of(transport.rank(), Channel::push, 0), size));
  const Operation operations[] = {
      transport.receive(from, Channel::push, at_host),
      transport.receive(from, Channel::push, small_came),
      rank.messages.receive(from, Channel::pull, {at_device.data(), size}),
      rank.messages.send(to, Channel::push, {}, {from_device.data(), size}),
      rank.messages.send_from_host(to, Channel::push, {}, small),
      transport.send(to, Channel::pull, {}, from_host)};
  for (const Operation& operation : operations) {
    rank.wait([&] { return operation.done(); }, "a message");
  }
  EXPECT_EQ(at_host, content(key_of(from, Channel::push, 0), size));
  EXPECT_EQ(small_came, content(key_of(from, Channel::push, 1), 11));
  EXPECT_EQ(rank.read(at_device), content(key_of(from, Channel::pull, 0), size));
  rank.leave();
}

// No memory but each lane's own; receives that nobody serves for long hold theirs.
void no_shared_memory(Transport& transport, const MakeClock&) {
  small_pieces(transport);
  DeviceRank rank(transport, {.shared_bytes = 0});
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  const std::vector<Channel> channels{Channel::backward, Channel::reduce, Channel::evaluate,
                                      Channel::forward};
  const std::size_t size = 40 * kPiece + 1;
  std::deque<Buffer> sources, targets;
  std::vector<Operation> receives;
  for (const Channel channel : channels) {
    for (int i = 0; i < 3; ++i) {
      targets.emplace_back(*rank.device, *rank.stream, size, MemoryKind::messages);
      receives.push_back(rank.messages.receive(from, channel, {targets.back().data(), size}));
    }
  }
  // In the other order, and each channel only after the one before has come.
  for (std::size_t c = channels.size(); c-- > 0;) {
    for (std::size_t i = 0; i < 3; ++i) {
      sources.push_back(rank.filled(content(key_of(transport.rank(), channels[c], i), size)));
      rank.messages.send(to, channels[c], {}, {sources.back().data(), size});
    }
    for (std::size_t i = 0; i < 3; ++i) {
      rank.wait([&] { return receives[3 * c + i].done(); }, "a message without shared memory");
      EXPECT_EQ(rank.read(targets[3 * c + i]), content(key_of(from, channels[c], i), size));
    }
  }
  rank.leave();
  // Four lanes each way, two pieces of at most an eighth more than their size each.
  EXPECT_LE(rank.messages.most_host_bytes(), 2 * 4 * 2 * (kPiece + kPiece / 8));
  EXPECT_GE(rank.messages.most_host_bytes(), 2 * kPiece);
}

}  // namespace

const std::vector<Scenario>& device_scenarios() {
  static const std::vector<Scenario> scenarios{{"PieceByPiece", 1, piece_by_piece},
                                               {"WholeAndInPieces", 1, whole_and_in_pieces},
                                               {"DeviceSizes", 1, device_sizes},
                                               {"HostAndDevice", 1, host_and_device},
                                               {"NoSharedMemory", 1, no_shared_memory}};
  return scenarios;
}

}  // namespace hetpipe
