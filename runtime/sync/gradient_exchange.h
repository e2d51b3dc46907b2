// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/buffer.h"
#include "partitioner/cost/memory.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/exchange_parts.h"
#include "runtime/transport/device_transport.h"

namespace hetpipe {

// Floats of one message of a sum of `count` floats over `members`.
inline std::int64_t exchange_piece(std::int64_t count, std::size_t members) {
  constexpr std::int64_t kFloat = sizeof(float);
  return all_reduce_piece(count * kFloat, static_cast<int>(members)) / kFloat;
}
// Partial sums that may arrive ahead of their turn to be added. Bounds the memory.
inline constexpr int kExchangeSlots = kAllReduceSlots;

// Sums of flat arrays over groups of ranks, in place, with the same bits at every member:
//   s = first; s += second; ...   (float, in the group's order)
// A group is a chain. Pieces of an array go up it, each member adding its own floats to the sum
// that comes from below, and the finished sums come down again, while later pieces still go up:
//
//   members  0 --> 1 --> 2      up:   partial sums   0, 0+1
//            0 <-- 1 <-- 2      down: the sum        0+1+2
//
// Every float crosses each hop once up and once down, both directions at once, so the time for many
// pieces does not grow with the group. All messages are nonblocking and move on whenever the rank
// polls.
//
// No deadlock, for any groups: let messages be ordered by (number of the start, number of the
// part, piece, step up and down the chain). All ranks start the same numbers in the same order and
// list parts ascending, so this order is one for all. Between two ranks (one direction) messages
// are sent and awaited in this order. Look at the first message of all that has not arrived.
//   * What it is made of arrived before it: the message before it on its chain is smaller.
//   * It is not sent behind another: the smaller ones of its pair of ranks have arrived.
//   * It is not awaited behind another, for the same reason. A partial sum needs a slot: these are
//     given in this order, and all smaller ones are free again. A finished sum overwrites the
//     floats that the rank sent up: they have arrived, so that send is over.
// So it arrives, if both ranks have started that number and poll; hence all do.
class GradientExchange {
 public:
  // `parts` of this rank, ascending by number. Memory for kExchangeSlots pieces, or as many as
  // there are, where partial sums come to this rank.
  GradientExchange(std::vector<ExchangePart> parts, DeviceTransport& transport,
                   RankService& service);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // Adds up `values`, a flat array that the stream's work so far fills. Does not wait; the array
  // stays where it is, untouched by others, until wait() has returned. `number`: the minibatch's,
  // for checks and messages. Several may be under way; they end in order.
  void start(std::int64_t number, float* values);
  // Likewise by another list of parts, which outlives it (running statistics have their own).
  void start(std::int64_t number, float* values, const std::vector<ExchangePart>& parts);
  // Waits until all started is done. WaitFailed names the number and the rank whose message is
  // missing. Returns seconds waited.
  double wait();
  bool idle() const { return sums_.empty(); }

  std::int64_t bytes_sent() const { return bytes_sent_; }
  std::int64_t messages_sent() const { return messages_sent_; }

 private:
  struct Sum;
  struct Piece;
  struct Message;
  struct Link;  // messages to and from one rank

  void poll();
  void make_slots(const std::vector<ExchangePart>& parts);
  float* slot(const Piece& piece) const;
  void add_messages(Sum& sum, const std::vector<ExchangePart>& parts, float* values);
  bool can_send(const Message& message) const;
  // Whether something moved on:
  bool post_sends(Link& link);
  bool post_receives(Link& link);
  bool take_sent(Link& link);
  bool take_arrived(Link& link);
  void free_slots();
  Awaited awaited() const;

  std::vector<ExchangePart> parts_;
  DeviceTransport& transport_;
  Device& device_;
  Stream& stream_;
  RankService& service_;
  Buffer slots_;
  std::int64_t slot_floats_ = 0;  // of each
  std::int64_t slot_count_ = 0;
  std::int64_t slots_given_ = 0;  // to partial sums, in order, over all starts
  std::int64_t slots_free_ = 0;   // the first so many of those have been added
  std::map<Rank, std::unique_ptr<Link>> links_;
  std::deque<std::unique_ptr<Sum>> sums_;  // under way, in order
  std::deque<Piece*> in_slots_;            // not added yet, in the order of their slots
  std::int64_t bytes_sent_ = 0;
  std::int64_t messages_sent_ = 0;
  std::shared_ptr<GradientExchange*> self_;  // what the service polls, for as long as this lives
};

}  // namespace hetpipe
