// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

// Whether two accesses of a launch to the same byte are ordered: by being one thread's, by a
// barrier of their block between them, or by bar.warp.sync between lanes of a warp (shuffles and
// votes order nothing). Blocks of a launch are not ordered, launches are. Independent of the order
// in which the interpreter happens to run threads.
namespace hetpipe::cuda::ptx {

// Who wrote a byte last, and who has read it since; 0: nobody.
struct Shadow {
  std::uint64_t write = 0, read = 0;
  bool operator==(const Shadow&) const = default;
};

enum class Race : std::uint8_t { none, with_write, with_read };

class Races {
 public:
  void begin_launch(unsigned threads);  // of a block
  void begin_block();
  void barrier() { ++phase_; }
  void warp_barrier(unsigned first_thread, std::uint32_t lanes);

  // Shared memory is another one in every block.
  template <bool kShared>
  Race write(Shadow& shadow, unsigned thread) const;
  template <bool kShared>
  Race read(Shadow& shadow, unsigned thread) const;
  bool written_in_block(const Shadow& shadow) const {
    return shadow.write != 0 && phase_of(shadow.write) >= block_;
  }
  bool is_of_block(std::uint64_t stamp) const {
    return phase_of(stamp) >= block_ && (stamp & kForeign) == 0;
  }
  static unsigned thread_of(std::uint64_t stamp) { return stamp >> 22 & 0x3ff; }

 private:
  // A stamp: phase (32 bits), thread (10), its clock (18), how many it stands for (2), whether
  // threads of other blocks read as well (1), and one bit without use.
  static constexpr std::uint64_t kLanesOfAWarp = 1u << 2, kMany = 2u << 2, kForeign = 1u << 1;
  static std::uint64_t phase_of(std::uint64_t stamp) { return stamp >> 32; }
  static std::uint32_t clock_of(std::uint64_t stamp) { return stamp >> 4 & 0x3ffff; }

  std::uint64_t stamp(unsigned thread) const {
    return phase_ << 32 | std::uint64_t{thread} << 22 |
           std::uint64_t{clocks_[thread][thread % 32]} << 4;
  }
  // Of a stamp of this block or, in global memory, of this launch.
  bool is_before(std::uint64_t stamp, unsigned thread) const;
  bool are_before(std::uint64_t stamp, unsigned thread) const;

  // Counts barriers; a block begins a phase of its own. Of this launch, of this block, and now.
  std::uint64_t launch_ = 1, block_ = 1, phase_ = 1;
  // Of each thread: what it knows of its warp's lanes' clocks, which warp barriers advance.
  std::vector<std::array<std::uint32_t, 32>> clocks_;
};

}  // namespace hetpipe::cuda::ptx
