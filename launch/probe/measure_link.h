// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <list>
#include <optional>

#include "base/fields.h"
#include "kernels/buffer.h"
#include "runtime/transport/device_transport.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// A link between two ranks, from one device's memory to the other's.
struct LinkNumbers {
  double latency = 0;     // s: half of a small message's round trip
  double there = 0;       // bytes/s of one large message, from the rank that asked
  double back = 0;        // bytes/s, to it
  std::size_t bytes = 0;  // of that message
};
constexpr auto fields_of(Type<LinkNumbers>) {
  return fields<&LinkNumbers::latency, &LinkNumbers::there, &LinkNumbers::back,
                &LinkNumbers::bytes>;
}

// One end of link tests. One rank asks and the other answers; all others are idle. The asking rank
// sends a message whose header says how many bytes to answer with and how many come next, so that
// the other needs to know nothing.
//
//   asks      8 bytes -> <- 8 bytes     many times: the latency
//             large   -> <- 8 bytes     growing until it takes a while, then the median: there
//             8 bytes -> <- large       back
//
// What is in transit when a test's deadline passes stays lent to the transport: such memory is kept
// as long as this object, which has to outlive the transport then.
class LinkEnd {
 public:
  // `most`: bytes of the largest message.
  LinkEnd(Transport& transport, Device& device, std::size_t most = 32 << 20);
  LinkEnd(const LinkEnd&) = delete;
  LinkEnd& operator=(const LinkEnd&) = delete;

  // Nothing, and false: the other rank did not answer within `deadline_seconds`.
  std::optional<LinkNumbers> ask(Rank other, double seconds, double deadline_seconds);
  bool answer(Rank other, double deadline_seconds);

  // Messages of this rank to itself, through the transport: there and back are the same.
  std::optional<LinkNumbers> ask_itself(double seconds, double deadline_seconds);

  // A deadline has passed: memory is lent for good.
  bool lent() const { return memory_.size() > 1; }

 private:
  struct Memory {
    Buffer out, in;
  };

  bool wait(const Operation& operation);
  std::optional<double> round_trip(Rank other, std::size_t out, std::size_t in,
                                   std::size_t next_out, bool last);
  std::optional<double> to_itself(std::size_t bytes);
  void keep_lent();

  Transport& transport_;
  Device& device_;
  std::size_t most_;
  std::unique_ptr<Stream> stream_;
  std::list<Memory> memory_;  // the last is in use, those before are lent for good
  DeviceTransport moves_;
  std::int64_t end_ns_ = 0;  // of the test
};

}  // namespace hetpipe
