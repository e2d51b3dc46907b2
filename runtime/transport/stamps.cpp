// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/stamps.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

using Number = unsigned long long;

}  // namespace

std::string to_string(const Route& route) {
  return format("rank %d -> rank %d, channel %s", route.from.value, route.to.value,
                to_string(route.channel));
}

OutgoingStamps::OutgoingStamps(Rank self, int ranks)
    : self_(self), ranks_(ranks), sequences_(static_cast<std::size_t>(ranks * kChannels)) {}

void OutgoingStamps::emulate(LinkTable table, std::shared_ptr<LinkClock> clock) {
  ensure(clock != nullptr, "emulated links need a clock");
  ensure(table.ranks == ranks_, "the link table has another number of ranks");
  ensure(table.links.size() == static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(ranks_),
         "the link table has another size than ranks x ranks");
  table_ = std::move(table);
  clock_ = std::move(clock);
}

MessageHeader OutgoingStamps::stamp(const Route& route, MessageHeader header, std::uint64_t bytes) {
  ensure(0 <= route.to.value && route.to.value < ranks_, "send to a rank outside the job");
  header.bytes = bytes;
  header.sequence = sequences_[static_cast<std::size_t>(route.to.value * kChannels +
                                                        static_cast<int>(route.channel))]++;
  header.sent_ns = now_ns();
  header.deliver_ns = 0;
  if (clock_ != nullptr && route.channel != Channel::control) {
    if (const auto& link = table_.link(self_, route.to)) {
      header.deliver_ns = clock_->reserve(*link, bytes, header.sent_ns);
    }
  }
  return header;
}

PieceSizes::PieceSizes(int ranks, std::uint64_t usual_bytes)
    : usual_(usual_bytes), of_peer_(static_cast<std::size_t>(ranks), usual_bytes) {}

void PieceSizes::set(Rank peer, std::uint64_t bytes) {
  ensure(0 <= peer.value && peer.value < std::ssize(of_peer_), "pieces for a rank outside the job");
  ensure(0 < bytes && bytes <= usual_, "pieces of nothing, or larger than the transport's own");
  of_peer_[static_cast<std::size_t>(peer.value)] = bytes;
}

std::uint64_t PieceSizes::of(Rank peer, Channel channel) const {
  const bool of_devices = channel != Channel::control && channel != Channel::checkpoint;
  return of_devices ? of_peer_.at(static_cast<std::size_t>(peer.value)) : usual_;
}

void check_sequence(const Route& route, const MessageHeader& header,
                    std::uint64_t expected_sequence) {
  if (header.sequence == expected_sequence) return;
  throw SystemError(format("%s: message number %llu came where %llu was expected",
                           to_string(route).c_str(), static_cast<Number>(header.sequence),
                           static_cast<Number>(expected_sequence)));
}

void check_arrival(const Route& route, const MessageHeader& header, std::uint64_t expected_bytes,
                   std::uint64_t expected_sequence) {
  check_sequence(route, header, expected_sequence);
  if (header.bytes == expected_bytes) return;
  throw SystemError(format("%s: message number %llu has %llu bytes, and %llu were expected",
                           to_string(route).c_str(), static_cast<Number>(header.sequence),
                           static_cast<Number>(header.bytes), static_cast<Number>(expected_bytes)));
}

}  // namespace hetpipe
