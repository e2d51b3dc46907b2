// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/wave_clock.h"

#include <algorithm>
#include <utility>

namespace hetpipe {

WaveClock::WaveClock(WaveRules rules, int shards)
    : rules_(std::move(rules)),
      at_shard_(static_cast<std::size_t>(rules_.workers()),
                std::vector<Wave>(static_cast<std::size_t>(shards), rules_.start_wave())),
      passed_(at_shard_.size(), rules_.start_wave()),
      granted_(rules_.start_wave()) {
  ensure(shards >= 1 && rules_.workers() >= 1, "a wave clock needs a worker and a shard");
}

void WaveClock::arrived(ShardId shard, VirtualWorkerId vw, Wave wave) {
  Wave& complete =
      at_shard_[static_cast<std::size_t>(vw.value)][static_cast<std::size_t>(shard.value)];
  ensure(wave == complete, "waves of a virtual worker reach a shard in order, each once");
  ensure(wave < rules_.end_wave(vw), "a push beyond the virtual worker's last wave");
  complete = wave + 1;
  // WSP's bound: nobody runs more than D + 1 waves ahead of the slowest that still runs.
  ensure(finished(vw) || clock(vw) - global_clock() <= rules_.distance + 1,
         "a virtual worker is further ahead than the clock distance allows");
}

void WaveClock::leave_out(ShardId shard) {
  for (int i = 0; i < rules_.workers(); ++i) {
    at_shard_[static_cast<std::size_t>(i)][static_cast<std::size_t>(shard.value)] =
        rules_.end_wave(VirtualWorkerId{i});
  }
}

// Whether the simulator has no other gate before this one.
bool WaveClock::is_next(VirtualWorkerId vw, Wave wave) const {
  if (!rules_.passed) return true;
  const std::pair when(rules_.passed(vw, wave), vw.value);
  for (int i = 0; i < rules_.workers(); ++i) {
    const VirtualWorkerId other{i};
    const Wave passed = passed_[static_cast<std::size_t>(i)];
    if (i == vw.value || !rules_.has_gate_behind(other, passed)) continue;
    if (std::pair(rules_.passed(other, passed + 1), i) < when) return false;
  }
  return true;
}

std::optional<Label> WaveClock::decide_gate(VirtualWorkerId vw, Wave wave) {
  ensure(wave > rules_.first_wave && wave < rules_.end_wave(vw), "no such gate");
  if (rules_.by_arrival()) {
    if (clock(vw) < wave || !is_next(vw, wave)) return std::nullopt;
    passed_[static_cast<std::size_t>(vw.value)] = wave;
    return ++granted_;
  }
  const Wave global = global_clock();
  if (global < rules_.bound_label(wave)) return std::nullopt;
  if (rules_.granted) {
    const Label label = std::clamp(rules_.granted(vw, wave), rules_.bound_label(wave), wave);
    return global >= label ? std::optional(label) : std::nullopt;
  }
  return rules_.pull == PullRule::bound ? rules_.bound_label(wave) : std::min(global, wave);
}

Wave WaveClock::clock(VirtualWorkerId vw) const {
  const auto& shards = at_shard_[static_cast<std::size_t>(vw.value)];
  return *std::min_element(shards.begin(), shards.end());
}

bool WaveClock::finished(VirtualWorkerId vw) const { return clock(vw) == rules_.end_wave(vw); }

Wave WaveClock::global_clock() const {
  Wave smallest = rules_.end_label();
  for (int i = 0; i < rules_.workers(); ++i) {
    const VirtualWorkerId vw{i};
    if (!finished(vw)) smallest = std::min(smallest, clock(vw));
  }
  return smallest;
}

}  // namespace hetpipe
