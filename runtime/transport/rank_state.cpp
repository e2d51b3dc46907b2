// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/rank_state.h"

#include <cstring>

#include "base/error.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr double kLongPhase = 10;  // times the patience

struct Wire {
  std::int64_t age_ns = 0;
  std::int32_t waits_for = -1;
  std::int32_t doing = 0;
};

}  // namespace

std::vector<std::byte> to_bytes(const RankState& state, std::int64_t now_ns) {
  const Wire wire{.age_ns = now_ns - state.since_ns,
                  .waits_for = state.waits_for ? state.waits_for->value : -1,
                  .doing = static_cast<std::int32_t>(state.doing)};
  std::vector<std::byte> bytes(sizeof wire + state.text.size());
  std::memcpy(bytes.data(), &wire, sizeof wire);
  std::memcpy(bytes.data() + sizeof wire, state.text.data(), state.text.size());
  return bytes;
}

RankState state_from_bytes(std::span<const std::byte> bytes, std::int64_t now_ns) {
  Wire wire;
  if (bytes.size() < sizeof wire) throw SystemError("a rank's state is cut short");
  std::memcpy(&wire, bytes.data(), sizeof wire);
  RankState state;
  state.doing = static_cast<Doing>(wire.doing);
  if (wire.waits_for >= 0) state.waits_for = Rank{wire.waits_for};
  state.since_ns = now_ns - wire.age_ns;
  state.text.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof wire,
                    bytes.size() - sizeof wire);
  return state;
}

WaitVerdict judge_wait(const std::vector<RankState>& states, Rank self,
                       std::optional<Rank> waits_for, double patience, std::int64_t now_ns) {
  const auto moves = [&](const RankState& state) {
    const double limit = state.doing == Doing::long_phase ? kLongPhase * patience : patience;
    return state.doing != Doing::unknown && seconds_between(state.since_ns, now_ns) < limit;
  };
  std::vector<bool> seen(states.size());
  std::optional<Rank> culprit;
  for (std::optional<Rank> next = waits_for; next;) {
    const auto i = static_cast<std::size_t>(next->value);
    if (i >= states.size() || seen[i]) return {false, culprit};  // they wait for each other
    if (*next == self) return {false, culprit};  // who says that it waits for this one
    seen[i] = true;
    culprit = next;
    if (moves(states[i])) return {true, {}};
    if (states[i].doing != Doing::waiting) return {false, culprit};
    next = states[i].waits_for;
  }
  const RankState* stuck = nullptr;  // the one that has been at its action for the longest time
  for (std::size_t r = 0; r < states.size(); ++r) {
    const Rank rank{static_cast<int>(r)};
    const RankState& state = states[r];
    if (rank == self) continue;
    if (moves(state)) return {true, {}};
    if (state.doing != Doing::working && state.doing != Doing::long_phase) continue;
    if (stuck != nullptr && stuck->since_ns <= state.since_ns) continue;
    stuck = &state;
    culprit = rank;
  }
  return {false, culprit};
}

}  // namespace hetpipe
