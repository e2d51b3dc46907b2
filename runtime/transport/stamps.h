// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "runtime/transport/link_emulation.h"
#include "runtime/transport/transport.h"

// What every transport writes into its headers and checks on arrival, so that all of them guarantee
// the same.
namespace hetpipe {

inline constexpr std::uint64_t kMaxControlBytes = std::uint64_t{1} << 20;
// Ranks read data and build their stages before they meet, some slower than others.
inline constexpr double kExchangeSeconds = 300;

// One stream of messages.
struct Route {
  Rank from;
  Rank to;
  Channel channel = Channel::control;
};
std::string to_string(const Route& route);  // "rank 0 -> rank 1, channel forward"

// Fills in bytes, sequence and time of delivery of what one rank sends.
class OutgoingStamps {
 public:
  OutgoingStamps(Rank self, int ranks);
  void emulate(LinkTable table, std::shared_ptr<LinkClock> clock);
  MessageHeader stamp(const Route& route, MessageHeader header, std::uint64_t bytes);

 private:
  Rank self_;
  int ranks_;
  std::vector<std::uint64_t> sequences_;  // [to * kChannels + channel]
  LinkTable table_;
  std::shared_ptr<LinkClock> clock_;  // null: nothing is emulated
};

// How large the pieces of payloads are, by peer and channel.
class PieceSizes {
 public:
  PieceSizes(int ranks, std::uint64_t usual_bytes);
  void set(Rank peer, std::uint64_t bytes);  // at most the usual
  std::uint64_t of(Rank peer, Channel channel) const;

 private:
  std::uint64_t usual_;
  std::vector<std::uint64_t> of_peer_;
};

// SystemError naming the route and both numbers when the message is not the expected one.
void check_arrival(const Route& route, const MessageHeader& header, std::uint64_t expected_bytes,
                   std::uint64_t expected_sequence);
void check_sequence(const Route& route, const MessageHeader& header,
                    std::uint64_t expected_sequence);

}  // namespace hetpipe
