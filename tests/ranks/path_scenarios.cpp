// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/error.h"
#include "base/random.h"
#include "device_rank.h"
#include "device_scenarios.h"
#include "runtime/transport/ipc_path.h"
#include "runtime/transport/mpi_path.h"

namespace hetpipe {
namespace {

Make ipc(DeviceRank& rank, Rank peer) {
  return [&rank, peer] {
    return std::make_unique<IpcPath>(rank.transport, peer, *rank.device, *rank.stream,
                                     *rank.peer_memory, rank.paths.words_to(peer));
  };
}

// A path that offers, sends and receives as it is asked to: for what goes wrong.
class Broken : public IpcPath {
 public:
  enum class How { offers_nonsense, swallows, changes_bytes };
  Broken(How how, DeviceRank& rank, Rank peer)
      : IpcPath(rank.transport, peer, *rank.device, *rank.stream, *rank.peer_memory,
                rank.paths.words_to(peer)),
        how_(how),
        rank_(rank) {}
  std::string offer() override {
    return how_ == How::offers_nonsense ? "nothing that can be opened" : IpcPath::offer();
  }
  Operation send(Channel channel, const MessageHeader& header,
                 std::span<const std::byte> memory) override {
    if (how_ == How::swallows) return Operation(std::make_shared<Operation::State>());
    if (how_ != How::changes_bytes) return IpcPath::send(channel, header, memory);
    other_.push_back(rank_.filled(Bytes(memory.size())));
    return IpcPath::send(channel, header, {other_.back().data(), memory.size()});
  }

 private:
  How how_;
  DeviceRank& rank_;
  std::deque<Buffer> other_{};
};

void shared_memory(Transport& transport, const MakeClock&) {
  DeviceRank rank(transport);
  try_paths(rank, PathKind::ipc, [&](Rank peer) { return ipc(rank, peer); });
  const auto results = rank.paths.results();
  ASSERT_EQ(std::ssize(results), transport.ranks() - 1);
  for (const PathResult& result : results) {
    EXPECT_EQ(result.kind, PathKind::ipc) << result.why;
    EXPECT_NE(rank.paths.path(result.peer, Channel::forward), nullptr);
    EXPECT_EQ(rank.paths.path(result.peer, Channel::push), nullptr);
  }
  EXPECT_EQ(rank.device->memory().used(MemoryKind::paths),
            results.size() * kChannelLanes * kIpcSlots * kIpcSlotBytes);
  exchange_messages(rank);
  EXPECT_EQ(rank.messages.most_host_bytes() > 0, true);  // of push
  rank.leave();
}

// Rank 0's paths do not work: both ends of them stage, both know why, and messages arrive. Where
// there is no answer, rank 0 is the one that gives up, so that the others' paths have their time.
void broken(Transport& transport, const std::function<Make(DeviceRank&, Rank)>& of_rank_0,
            const std::string& why, std::optional<double> rank_0_gives_up = {}) {
  const Rank self = transport.rank();
  const double long_enough = test::patience(20);
  DeviceRank rank(transport, {}, "offload",
                  self == Rank{0} ? rank_0_gives_up.value_or(long_enough) : long_enough);
  try_paths(rank, PathKind::ipc,
            [&](Rank peer) { return self == Rank{0} ? of_rank_0(rank, peer) : ipc(rank, peer); });
  std::string said;
  for (const PathResult& result : rank.paths.results()) {
    const bool hurt = self == Rank{0} || result.peer == Rank{0};
    EXPECT_EQ(result.kind, hurt ? PathKind::staged : PathKind::ipc) << result.why;
    EXPECT_EQ(rank.paths.path(result.peer, Channel::forward) == nullptr, hurt);
    if (hurt) said += result.why;
  }
  std::string all;
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(said)))) {
    all.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    EXPECT_FALSE(bytes.empty());
  }
  EXPECT_THAT(all, testing::HasSubstr(why));
  exchange_messages(rank);
  rank.leave();
}

// The path of an MPI library that reaches GPUs, over memory that any reaches.
void transport_itself(Transport& transport, const MakeClock&) {
  DeviceRank rank(transport, {}, "cpu");
  try_paths(rank, PathKind::mpi, [&](Rank peer) -> Make {
    return [&, peer] { return std::make_unique<MpiPath>(transport, peer, *rank.stream); };
  });
  const Rank to = neighbour(transport, 1), from = neighbour(transport, -1);
  DevicePath* const out = rank.paths.path(to, Channel::forward);
  DevicePath* const in = rank.paths.path(from, Channel::forward);
  ASSERT_TRUE(out != nullptr && in != nullptr);
  std::deque<Buffer> sources, targets;
  std::vector<Operation> sends, receives;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const std::size_t bytes = i * i * 10'000;
    targets.emplace_back(*rank.device, *rank.stream, bytes, MemoryKind::messages);
    receives.push_back(in->receive(Channel::forward, {targets.back().data(), bytes}));
    sources.push_back(rank.filled(content(i, bytes)));
    sends.push_back(
        out->send(Channel::forward, {.kind = static_cast<int>(i)}, {sources.back().data(), bytes}));
  }
  for (std::uint64_t i = 0; i < 5; ++i) {
    rank.wait([&] { return receives[i].done() && sends[i].done(); }, "a message");
    EXPECT_EQ(receives[i].header().kind, static_cast<int>(i));
    EXPECT_EQ(rank.read(targets[i]), content(i, targets[i].bytes()));
  }
  rank.leave();
}

constexpr double kNoAnswer = 2;  // s

Scenario scenario(const char* name, Broken::How how, const char* why) {
  return {name, 2, [how, why](Transport& transport, const MakeClock&) {
            const auto make = [how](DeviceRank& rank, Rank peer) -> Make {
              return [&rank, peer, how] { return std::make_unique<Broken>(how, rank, peer); };
            };
            const bool answers = how != Broken::How::swallows;
            broken(transport, make, why, answers ? std::nullopt : std::optional(kNoAnswer));
          }};
}

}  // namespace

const std::vector<Scenario>& path_scenarios() {
  static const std::vector<Scenario> scenarios{
      {"SharedMemory", 2, shared_memory},
      {"TransportItself", 2, transport_itself},
      {"NoneAtOneEnd", 2,
       [](Transport& transport, const MakeClock&) {
         const auto none = [](DeviceRank&, Rank) -> Make {
           return []() -> std::unique_ptr<DevicePath> { throw SystemError("no such library"); };
         };
         broken(transport, none, "rank 0: no such library");
       }},
      scenario("NonsenseOffered", Broken::How::offers_nonsense, "a handle of another kind"),
      scenario("NoAnswer", Broken::How::swallows, "no answer within 2 s"),
      scenario("OtherBytes", Broken::How::changes_bytes,
               "the bytes received differ from those sent")};
  return scenarios;
}

}  // namespace hetpipe
