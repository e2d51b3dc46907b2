// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "runtime/transport/transport.h"

namespace hetpipe::test {

// A link that loses every message of `from` bytes and more between two ranks, as one does between
// hosts that disagree about the largest packet; with `from` 0 one that lets nothing through.
class Lossy final : public Transport {
 public:
  Lossy(std::unique_ptr<Transport> sound, int other, std::size_t from)
      : sound_(std::move(sound)), other_(other), from_(from) {}
  Rank rank() const override { return sound_->rank(); }
  int ranks() const override { return sound_->ranks(); }
  void emulate_links(LinkTable table, std::shared_ptr<LinkClock> clock) override {
    sound_->emulate_links(std::move(table), std::move(clock));
  }
  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> payload) override {
    if (to.value != other_ || payload.size() < from_) {
      return sound_->send(to, channel, header, payload);
    }
    auto state = std::make_shared<Operation::State>();
    state->done = true;
    return Operation(std::move(state));
  }
  Operation receive(Rank from, Channel channel, std::span<std::byte> payload) override {
    return sound_->receive(from, channel, payload);
  }
  Operation send(Rank to, Channel channel, const MessageHeader& header, std::uint64_t bytes,
                 std::shared_ptr<PayloadPieces> pieces) override {
    return sound_->send(to, channel, header, bytes, std::move(pieces));
  }
  Operation receive(Rank from, Channel channel, std::uint64_t bytes,
                    std::shared_ptr<PayloadPieces> pieces) override {
    return sound_->receive(from, channel, bytes, std::move(pieces));
  }
  void set_piece_bytes(Rank peer, std::uint64_t bytes) override {
    sound_->set_piece_bytes(peer, bytes);
  }
  std::uint64_t piece_bytes(Rank peer, Channel channel) const override {
    return sound_->piece_bytes(peer, channel);
  }
  void send_control(Rank to, const MessageHeader& header,
                    std::span<const std::byte> payload) override {
    if (to.value == other_ && payload.size() >= from_) return;
    sound_->send_control(to, header, payload);
  }
  std::optional<ControlMessage> try_receive_control() override {
    return sound_->try_receive_control();
  }
  void progress() override { sound_->progress(); }
  bool idle() const override { return sound_->idle(); }
  std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) override {
    return sound_->exchange(mine);
  }
  void abort(int exit_code) override { sound_->abort(exit_code); }

 private:
  std::unique_ptr<Transport> sound_;
  int other_;
  std::size_t from_;
};

}  // namespace hetpipe::test
