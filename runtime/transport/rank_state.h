// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hetpipe {

// working: at one of its actions. waiting: for another rank. long_phase: at something that may take
// much longer than a message may (reading data, writing a checkpoint).
enum class Doing : std::uint8_t { unknown, working, waiting, long_phase };

// What a rank is doing, as others see it.
struct RankState {
  Doing doing = Doing::unknown;
  std::optional<Rank> waits_for;  // nothing: for several, or for none in particular
  std::int64_t since_ns = 0;      // by the clock of whoever holds this value
  std::string text;               // "B17", "the gradient of minibatch 17 from rank 2"
};

// States travel with their age: clocks of two machines have nothing in common.
std::vector<std::byte> to_bytes(const RankState& state, std::int64_t now_ns);
RankState state_from_bytes(std::span<const std::byte> bytes, std::int64_t now_ns);

// A wait has lasted `patience` seconds: does the awaited rank make progress, or is it stuck? Looks
// along the chain of waiting ranks: one that has begun something since makes progress, and
// all have ten times as long for a long phase. Where the chain ends without a rank, any rank
// that moves will do: what it does may be what is waited for.
struct WaitVerdict {
  bool go_on = false;
  // Stuck, or silent: the end of the chain. One that hangs while it waits looks as if it waited, so
  // of ranks that wait for each other it is the one that waits for whoever asks.
  std::optional<Rank> culprit;
};
WaitVerdict judge_wait(const std::vector<RankState>& states, Rank self,
                       std::optional<Rank> waits_for, double patience, std::int64_t now_ns);

}  // namespace hetpipe
