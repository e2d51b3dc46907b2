// SPDX-License-Identifier: Apache-2.0
#include "device_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/random.h"
#include "runtime/transport/ipc_path.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

struct Numbered {
  static constexpr std::int32_t kKind = 77;
  std::int64_t number = 0;
};

constexpr Channel kDeviceChannels[] = {Channel::forward, Channel::backward, Channel::evaluate,
                                       Channel::reduce, Channel::push};

std::uint64_t key_of(Rank from, Rank to, Channel channel, std::size_t i) {
  return random_key({static_cast<std::uint64_t>(from.value), static_cast<std::uint64_t>(to.value),
                     static_cast<std::uint64_t>(channel), static_cast<std::uint64_t>(i)});
}

}  // namespace

Bytes content(std::uint64_t key, std::size_t size) {
  Bytes bytes(size);
  std::uint64_t word = key | 1;
  for (std::size_t i = 0; i < size; i += sizeof word) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    const std::uint64_t mixed = word ^ (word >> 29);
    std::memcpy(bytes.data() + i, &mixed, std::min(sizeof mixed, size - i));
  }
  return bytes;
}

Rank neighbour(const Transport& transport, int distance) {
  const int n = transport.ranks();
  return Rank{(transport.rank().value + distance % n + n) % n};
}

DeviceRank::DeviceRank(Transport& the_transport, const StagingLimits& limits, const char* name,
                       double trial_seconds)
    : transport(the_transport),
      device(make_device(name, 1)),
      stream(device->make_stream()),
      peer_memory(make_peer_memory(*device)),
      paths(transport, *device, *stream, trial_seconds),
      messages(transport, *device, *stream, limits) {}

Buffer DeviceRank::filled(Bytes values) {
  const Bytes& bytes = kept.emplace_back(std::move(values));
  Buffer buffer(*device, *stream, bytes.size(), MemoryKind::messages);
  if (!bytes.empty()) device->copy(*stream, buffer.data(), bytes.data(), bytes.size());
  return buffer;
}

Bytes DeviceRank::read(const Buffer& buffer) {
  Bytes bytes(buffer.bytes());
  if (!bytes.empty()) device->copy(*stream, bytes.data(), buffer.data(), bytes.size());
  stream->synchronize();
  return bytes;
}

void DeviceRank::poll() {
  transport.progress();
  while (const auto message = transport.try_receive_control()) {
    paths.take(message->from, read_as<PathWord>(*message));
  }
  paths.poll();
  messages.poll();
}

void DeviceRank::wait(const std::function<bool()>& ready, const char* what) {
  wait_until(
      ready, [this] { poll(); }, test::patience(30), [&] { return std::string(what); });
}

void DeviceRank::leave() {
  wait([this] { return messages.idle() && paths.idle() && transport.idle(); }, "sends to complete");
  paths.close();
  wait([this] { return paths.closed() && transport.idle(); }, "the peers to release memory");
  transport.exchange({});
}

void try_paths(DeviceRank& rank, PathKind kind, const std::function<Make(Rank peer)>& make) {
  for (int r = 0; r < rank.transport.ranks(); ++r) {
    if (Rank{r} == rank.transport.rank()) continue;
    rank.paths.begin(Rank{r}, kind, make(Rank{r}));
  }
  rank.wait([&] { return rank.paths.tried(); }, "trials");
  rank.messages.use(rank.paths);
}

void exchange_messages(DeviceRank& rank) {
  const std::vector<std::size_t> sizes{0,
                                       1,
                                       kIpcSlotBytes - 1,
                                       kIpcSlotBytes,
                                       kIpcSlotBytes + 1,
                                       7,
                                       (kIpcSlots + 2) * kIpcSlotBytes + 5};
  struct Came {
    std::uint64_t key;
    Buffer memory;
    Operation operation;
  };
  std::deque<Came> came;
  std::deque<Buffer> sources;  // lent until the sends are done
  std::vector<Operation> sends;
  const Rank self = rank.transport.rank();
  for (int r = 0; r < rank.transport.ranks(); ++r) {
    const Rank peer{r};
    if (peer == self) continue;
    for (const Channel channel : kDeviceChannels) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        came.push_back({key_of(peer, self, channel, i),
                        Buffer(*rank.device, *rank.stream, sizes[i], MemoryKind::messages),
                        {}});
        came.back().operation =
            rank.messages.receive(peer, channel, {came.back().memory.data(), sizes[i]});
        sources.push_back(rank.filled(content(key_of(self, peer, channel, i), sizes[i])));
        const MessageHeader header = header_of(Numbered{static_cast<std::int64_t>(i)});
        sends.push_back(
            rank.messages.send(peer, channel, header, {sources.back().data(), sizes[i]}));
      }
    }
  }
  int i = 0;
  for (const Came& message : came) {
    rank.wait([&] { return message.operation.done(); }, "a message");
    EXPECT_EQ(read_as<Numbered>(message.operation.header()).number,
              i++ % static_cast<int>(sizes.size()));
    EXPECT_EQ(message.operation.header().bytes, message.memory.bytes());
    const Bytes came_here = rank.read(message.memory);
    const Bytes expected = content(message.key, message.memory.bytes());
    const auto differ = std::mismatch(came_here.begin(), came_here.end(), expected.begin());
    EXPECT_TRUE(differ.first == came_here.end())
        << "message " << i - 1 << " differs from byte " << differ.first - came_here.begin()
        << " of " << came_here.size() << " on";
  }
  for (const Operation& send : sends) {
    rank.wait([&] { return send.done(); }, "a send");
  }
}

}  // namespace hetpipe
