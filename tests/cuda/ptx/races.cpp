// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/races.h"

#include <algorithm>
#include <stdexcept>

namespace hetpipe::cuda::ptx {

void Races::begin_launch(unsigned threads) {
  launch_ = ++phase_;
  block_ = phase_;
  if (phase_ >= 0xffff0000u) throw std::length_error("2^32 barriers and blocks");
  clocks_.assign(threads, {});
  for (unsigned t = 0; t < threads; ++t) clocks_[t][t % 32] = 1;
}
void Races::begin_block() { block_ = ++phase_; }

void Races::warp_barrier(unsigned first_thread, std::uint32_t lanes) {
  std::array<std::uint32_t, 32> known{};
  for (unsigned l = 0; l < 32; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    const auto& clocks = clocks_[first_thread + l];
    for (unsigned k = 0; k < 32; ++k) known[k] = std::max(known[k], clocks[k]);
  }
  for (unsigned l = 0; l < 32; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    clocks_[first_thread + l] = known;
    if (++clocks_[first_thread + l][l] >> 18 != 0) throw std::length_error("2^18 warp barriers");
  }
}

bool Races::is_before(std::uint64_t stamp, unsigned thread) const {
  if (phase_of(stamp) < block_) return false;  // another block's
  if (phase_of(stamp) < phase_ || thread_of(stamp) == thread) return true;
  if (thread_of(stamp) / 32 != thread / 32) return false;
  return clocks_[thread][thread_of(stamp) % 32] >= clock_of(stamp);
}

// All that a stamp of readers stands for. Of lanes of a warp it has the latest clock, so that
// barriers of parts of a warp may be taken for too few.
bool Races::are_before(std::uint64_t stamp, unsigned thread) const {
  if ((stamp & kForeign) != 0) return false;
  const std::uint64_t many = stamp & (kLanesOfAWarp | kMany);
  if (many == 0 || phase_of(stamp) != phase_) return is_before(stamp, thread);
  if (many == kMany || thread_of(stamp) / 32 != thread / 32) return false;
  const auto& clocks = clocks_[thread];
  return std::all_of(clocks.begin(), clocks.end(),
                     [&](std::uint32_t clock) { return clock >= clock_of(stamp); });
}

template <bool kShared>
Race Races::write(Shadow& shadow, unsigned thread) const {
  const std::uint64_t first = kShared ? block_ : launch_;
  Race race = Race::none;
  if (phase_of(shadow.write) >= first && !is_before(shadow.write, thread)) {
    race = Race::with_write;
  } else if (phase_of(shadow.read) >= first && !are_before(shadow.read, thread)) {
    race = Race::with_read;
  }
  if (race == Race::none) shadow = {.write = stamp(thread), .read = 0};
  return race;
}

template <bool kShared>
Race Races::read(Shadow& shadow, unsigned thread) const {
  const std::uint64_t first = kShared ? block_ : launch_;
  if (phase_of(shadow.write) >= first && !is_before(shadow.write, thread)) return Race::with_write;
  std::uint64_t& old = shadow.read;
  std::uint64_t mine = stamp(thread);
  if (phase_of(old) < first) {
    old = mine;
  } else if (phase_of(old) < block_) {
    old = mine | kForeign;
  } else if (phase_of(old) < phase_) {
    old = mine | (old & kForeign);
  } else if (thread_of(old) != thread || (old & (kLanesOfAWarp | kMany)) != 0) {
    const bool one_warp = thread_of(old) / 32 == thread / 32 && (old & kMany) == 0;
    if (one_warp && clock_of(old) > clock_of(mine)) mine = old & ~std::uint64_t{0xf};
    old = mine | (old & kForeign) | (one_warp ? kLanesOfAWarp : kMany);
  } else {
    old = mine | (old & kForeign);
  }
  return Race::none;
}

template Race Races::write<true>(Shadow&, unsigned) const;
template Race Races::write<false>(Shadow&, unsigned) const;
template Race Races::read<true>(Shadow&, unsigned) const;
template Race Races::read<false>(Shadow&, unsigned) const;

}  // namespace hetpipe::cuda::ptx
