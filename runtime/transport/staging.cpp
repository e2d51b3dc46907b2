// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/staging.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr int kOwnPieces = 2;    // of each lane: one is copied while the other is on the wire
constexpr int kMostPieces = 16;  // so many hide that the host looks only now and then

struct Piece {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::byte* host = nullptr;
  std::unique_ptr<Event> copied{};  // between host and device
};

}  // namespace

struct Staging::Lane {
  int pieces = 0;                                   // that hold memory of the host's
  std::uint64_t piece_bytes = 0;                    // sends
  std::deque<std::shared_ptr<Outgoing>> to_fill{};  // sends: not all of it is being copied yet
};

class Staging::Outgoing final : public PayloadPieces {
 public:
  Outgoing(Staging& staging, Lane& lane, std::span<const std::byte> memory,
           std::shared_ptr<Operation::State> state)
      : staging_(&staging),
        lane_(lane),
        memory_(memory),
        ready_(staging.stream_.record()),
        state_(std::move(state)) {}

  // Enqueues copies to the host; true when any.
  bool fill() {
    bool any = false;
    while (filled_ < memory_.size()) {
      const std::size_t bytes = std::min(lane_.piece_bytes, memory_.size() - filled_);
      if (!staging_->may_take(lane_, bytes, true)) return any;
      Stream& copies = *staging_->to_host_;
      if (filled_ == 0) copies.wait(*ready_);
      Piece& piece = pieces_.emplace_back(Piece{filled_, bytes, staging_->pool_.take(bytes)});
      ++lane_.pieces;
      staging_->device_.copy(copies, piece.host, memory_.data() + filled_, bytes);
      piece.copied = copies.record();
      filled_ += bytes;
      any = true;
    }
    return any;
  }
  bool filled() const { return filled_ == memory_.size(); }

  // The device's memory is free again; true when that is news.
  bool note_copied() {
    if (state_->done || !filled() || (!pieces_.empty() && !pieces_.back().copied->done())) {
      return false;
    }
    state_->done = true;
    return true;
  }
  bool copied() const { return state_->done; }

  std::byte* next(std::uint64_t offset, std::uint64_t bytes) override {
    if (staging_ == nullptr) return nullptr;
    const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                    [&](const Piece& p) { return p.offset == offset; });
    if (piece == pieces_.end() || !piece->copied->done()) return nullptr;
    ensure(piece->bytes == bytes, "a transport that changed the size of its pieces");
    return piece->host;
  }
  void finished(std::uint64_t offset, std::uint64_t) override {
    if (staging_ == nullptr) return;
    ensure(!pieces_.empty() && pieces_.front().offset == offset, "pieces leave out of order");
    staging_->pool_.give_back(pieces_.front().host, pieces_.front().bytes);
    pieces_.pop_front();
    --lane_.pieces;
  }
  void leave_for_ever() { staging_ = nullptr; }

 private:
  Staging* staging_;
  Lane& lane_;
  std::span<const std::byte> memory_;
  std::unique_ptr<Event> ready_;  // what is sent has been computed
  std::shared_ptr<Operation::State> state_;
  std::size_t filled_ = 0;
  std::deque<Piece> pieces_;
};

class Staging::Incoming final : public PayloadPieces {
 public:
  Incoming(Staging& staging, Lane& lane, std::span<std::byte> memory,
           std::shared_ptr<Operation::State> state)
      : staging_(&staging),
        lane_(lane),
        memory_(memory),
        free_(staging.stream_.record()),
        state_(std::move(state)) {}

  std::byte* next(std::uint64_t offset, std::uint64_t bytes) override {
    if (staging_ == nullptr || !staging_->may_take(lane_, bytes, begun_)) return nullptr;
    ++lane_.pieces;
    return coming_.emplace_back(Piece{offset, bytes, staging_->pool_.take(bytes)}).host;
  }
  void finished(std::uint64_t offset, std::uint64_t) override {
    if (staging_ == nullptr) return;
    ensure(!coming_.empty() && coming_.front().offset == offset, "pieces arrive out of order");
    Piece piece = std::move(coming_.front());
    coming_.pop_front();
    Stream& copies = *staging_->to_device_;
    if (!begun_) copies.wait(*free_);
    begun_ = true;
    staging_->device_.copy(copies, memory_.data() + offset, piece.host, piece.bytes);
    piece.copied = copies.record();
    copying_.push_back(std::move(piece));
  }

  bool note_copied() {
    bool any = false;
    for (; !copying_.empty() && copying_.front().copied->done(); copying_.pop_front()) {
      staging_->pool_.give_back(copying_.front().host, copying_.front().bytes);
      --lane_.pieces;
      copied_ += copying_.front().bytes;
      any = true;
    }
    return any;
  }
  bool copied() const { return copied_ == memory_.size(); }
  void done(const MessageHeader& header) {
    state_->header = header;
    state_->done = true;
  }
  void leave_for_ever() { staging_ = nullptr; }

 private:
  Staging* staging_;
  Lane& lane_;
  std::span<std::byte> memory_;
  std::unique_ptr<Event> free_;  // the memory's earlier users are done
  std::shared_ptr<Operation::State> state_;
  bool begun_ = false;
  std::size_t copied_ = 0;
  std::deque<Piece> coming_;
  std::deque<Piece> copying_;
};

Staging::Staging(Transport& transport, Device& device, Stream& stream, const StagingLimits& limits)
    : transport_(transport),
      device_(device),
      stream_(stream),
      limits_(limits),
      to_host_(device.make_stream()),
      to_device_(device.make_stream()),
      pool_(device) {}

Staging::~Staging() {
  for (const auto& send : sends_) send.message->leave_for_ever();
  for (const auto& receive : receives_) receive.message->leave_for_ever();
}

void Staging::reserve(int lanes) {
  const auto shared = static_cast<int>(limits_.shared_bytes / kStagedPieceBytes);
  const int most = lanes * kMostPieces;
  pool_.reserve(kStagedPieceBytes, std::min(most, lanes * kOwnPieces + shared));
}

Staging::Lane& Staging::lane(std::map<std::pair<Rank, Channel>, std::unique_ptr<Lane>>& lanes,
                             Rank peer, Channel channel) {
  std::unique_ptr<Lane>& lane = lanes[{peer, channel}];
  if (lane == nullptr) lane = std::make_unique<Lane>();
  lane->piece_bytes = transport_.piece_bytes(peer, channel);
  return *lane;
}

bool Staging::may_take(const Lane& lane, std::size_t bytes, bool begun) const {
  if (lane.pieces < kOwnPieces) return true;
  return begun && lane.pieces < kMostPieces && pool_.lent() + bytes <= limits_.shared_bytes;
}

bool Staging::fill(Lane& lane) {
  bool any = false;
  while (!lane.to_fill.empty()) {
    any |= lane.to_fill.front()->fill();
    if (!lane.to_fill.front()->filled()) break;
    lane.to_fill.pop_front();
  }
  return any;
}

Operation Staging::send(Rank to, Channel channel, const MessageHeader& header,
                        std::span<const std::byte> memory) {
  auto state = std::make_shared<Operation::State>();
  Lane& way = lane(lanes_out_, to, channel);
  auto message = std::make_shared<Outgoing>(*this, way, memory, state);
  way.to_fill.push_back(message);
  fill(way);
  sends_.push_back({message, {}});
  sends_.back().operation = transport_.send(to, channel, header, memory.size(), message);
  return Operation(std::move(state));
}

Operation Staging::receive(Rank from, Channel channel, std::span<std::byte> memory) {
  auto state = std::make_shared<Operation::State>();
  auto message = std::make_shared<Incoming>(*this, lane(lanes_in_, from, channel), memory, state);
  receives_.push_back({message, {}});
  receives_.back().operation = transport_.receive(from, channel, memory.size(), message);
  return Operation(std::move(state));
}

bool Staging::poll() {
  bool any = false;
  for (const auto& [route, lane] : lanes_out_) any |= fill(*lane);
  for (const auto& send : sends_) any |= send.message->note_copied();
  any |= std::erase_if(sends_, [](const UnderWay<Outgoing>& send) {
           return send.message->copied() && send.operation.done();
         }) > 0;
  for (const auto& receive : receives_) any |= receive.message->note_copied();
  any |= std::erase_if(receives_, [](const UnderWay<Incoming>& receive) {
           if (!receive.message->copied() || !receive.operation.done()) return false;
           receive.message->done(receive.operation.header());
           return true;
         }) > 0;
  return any;
}

}  // namespace hetpipe
