// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "device_rank.h"
#include "device_scenarios.h"
#include "runtime/transport/nccl_path.h"

namespace hetpipe {
namespace {

constexpr int kBlocks = 3;
constexpr std::size_t kBytesOfBlock = 1000;

// What the two ends of a link have in common.
struct Wire {
  std::mutex mutex;
  bool joined[2] = {false, false};
  bool aborted = false;
  int sends = 0;
  int receives = 0;
  std::deque<std::shared_ptr<Bytes>> sent;  // not taken yet
};

// All links of a test.
struct Switchboard {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Wire>> wires;
  std::atomic<int> ids{0};
  std::atomic<int> too_early{0};  // receives whose send was not there yet
  std::atomic<int> aborts{0};
  bool stalls = false;
};

class DoubleLink final : public NcclLink {
 public:
  struct Move final : Transfer {
    bool done() const override { return over; }
    std::span<std::byte> memory;
    std::shared_ptr<Bytes> bytes;
    std::unique_ptr<Event> copied;
    bool over = false;
  };

  DoubleLink(Switchboard& board, std::shared_ptr<Wire> wire, int end, DeviceRank& rank)
      : board_(board),
        wire_(std::move(wire)),
        end_(end),
        rank_(rank),
        stream_(rank.device->make_stream()) {
    const std::lock_guard lock(wire_->mutex);
    wire_->joined[end_] = true;
  }
  ~DoubleLink() override {
    if (connected_ && moves_.empty()) return;
    const std::lock_guard lock(wire_->mutex);
    wire_->aborted = true;
    ++board_.aborts;
  }

  bool connected() const override { return connected_; }
  std::shared_ptr<Transfer> send(std::span<const std::byte> memory) override {
    auto move = std::make_shared<Move>();
    move->bytes = std::make_shared<Bytes>(memory.size());
    rank_.device->copy(*stream_, move->bytes->data(), memory.data(), memory.size());
    move->copied = stream_->record();
    moves_.push_back(move);
    const std::lock_guard lock(wire_->mutex);
    ++wire_->sends;
    return move;
  }
  std::shared_ptr<Transfer> receive(std::span<std::byte> memory) override {
    auto move = std::make_shared<Move>();
    move->memory = memory;
    moves_.push_back(move);
    const std::lock_guard lock(wire_->mutex);
    if (++wire_->receives > wire_->sends) ++board_.too_early;
    return move;
  }

  bool poll() override {
    const std::lock_guard lock(wire_->mutex);
    if (wire_->aborted) throw SystemError("the other end gave up");
    if (board_.stalls) return false;
    if (!connected_) return connected_ = wire_->joined[0] && wire_->joined[1];
    if (moves_.empty()) return false;
    Move& move = *moves_.front();
    return end_ == 0 ? push(move) : take(move);
  }

 private:
  bool push(Move& move) {
    if (!move.copied->done()) return false;
    wire_->sent.push_back(move.bytes);
    move.over = true;
    moves_.pop_front();
    return true;
  }
  bool take(Move& move) {
    if (move.copied == nullptr) {
      if (wire_->sent.empty()) return false;
      move.bytes = std::move(wire_->sent.front());
      wire_->sent.pop_front();
      EXPECT_EQ(move.bytes->size(), move.memory.size());
      rank_.device->copy(*stream_, move.memory.data(), move.bytes->data(), move.bytes->size());
      move.copied = stream_->record();
      return true;
    }
    if (!move.copied->done()) return false;
    move.over = true;
    moves_.pop_front();
    return true;
  }

  Switchboard& board_;
  std::shared_ptr<Wire> wire_;
  int end_;
  DeviceRank& rank_;
  std::unique_ptr<Stream> stream_;
  bool connected_ = false;
  std::deque<std::shared_ptr<Move>> moves_;
};

class NcclDouble final : public NcclModule {
 public:
  NcclDouble(Switchboard& board, DeviceRank& rank) : board_(board), rank_(rank) {}
  std::string version() const override { return "a double"; }
  std::string make_id() const override { return format("id%08d", board_.ids++); }
  std::size_t bytes_of_pair(int blocks) const override { return at(blocks) * kBytesOfBlock; }
  std::unique_ptr<NcclLink> connect(const std::string& id, int end, int,
                                    int blocks) const override {
    EXPECT_EQ(blocks, kBlocks);
    const std::lock_guard lock(board_.mutex);
    std::shared_ptr<Wire>& wire = board_.wires[id];
    if (wire == nullptr) wire = std::make_shared<Wire>();
    return std::make_unique<DoubleLink>(board_, wire, end, rank_);
  }
  void send_to_self(int, std::size_t) const override {}

 private:
  Switchboard& board_;
  DeviceRank& rank_;
};

// The first rank that comes makes it, for all of the test.
std::shared_ptr<Switchboard> board_of(Transport& transport, bool stalls) {
  static std::mutex mutex;
  static std::weak_ptr<Switchboard> shared;
  std::shared_ptr<Switchboard> board;
  {
    const std::lock_guard lock(mutex);
    board = shared.lock();
    if (board == nullptr) {
      board = std::make_shared<Switchboard>();
      board->stalls = stalls;
      shared = board;
    }
  }
  transport.exchange({});  // all have it
  return board;
}

void play(Transport& transport, bool stalls) {
  const std::shared_ptr<Switchboard> board = board_of(transport, stalls);
  {
    DeviceRank rank(transport, {}, "offload", stalls ? 4 : 20);
    const NcclDouble nccl(*board, rank);
    try_paths(rank, PathKind::nccl, [&](Rank peer) -> Make {
      return [&, peer] {
        return std::make_unique<NcclPath>(transport, peer, *rank.stream, nccl,
                                          NcclPath::On{0, rank.device->memory(), kBlocks},
                                          rank.paths.words_to(peer));
      };
    });
    for (const PathResult& result : rank.paths.results()) {
      EXPECT_EQ(result.kind, stalls ? PathKind::staged : PathKind::nccl) << result.why;
      EXPECT_EQ(result.why.empty(), !stalls);
    }
    // The account has the buffers of every pair that is connected.
    const auto peers = at(transport.ranks() - 1);
    EXPECT_EQ(rank.device->memory().used(MemoryKind::paths),
              stalls ? 0 : peers * kBlocks * kBytesOfBlock);
    exchange_messages(rank);
    rank.leave();
    EXPECT_EQ(rank.device->memory().used(MemoryKind::paths), 0u);
  }
  transport.exchange({});
  EXPECT_EQ(board->too_early, 0);
  const int pairs = transport.ranks() * (transport.ranks() - 1) / 2;
  EXPECT_EQ(board->ids, 2 * pairs);
  EXPECT_EQ(board->aborts, stalls ? 4 * pairs : 0);
  transport.exchange({});
}

}  // namespace

const std::vector<Scenario>& nccl_scenarios() {
  static const std::vector<Scenario> scenarios{
      {"Nccl", 2, [](Transport& transport, const MakeClock&) { play(transport, false); }},
      {"NcclStalls", 2, [](Transport& transport, const MakeClock&) { play(transport, true); }}};
  return scenarios;
}

}  // namespace hetpipe
