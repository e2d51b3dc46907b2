// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "base/text.h"
#include "tests/cuda/ptx/lanes.h"

// What lanes do together. The scheduler has seen to it that exactly the lanes of the mask are here.
namespace hetpipe::cuda::ptx {
namespace {

enum class Way { up, down, butterfly, index };

// Which lane is read, and whether that one is inside of the segment; as the manual of PTX has it.
template <Way kWay>
unsigned source_lane(unsigned lane, std::uint32_t by, std::uint32_t clamp_and_mask, bool& inside) {
  const std::uint32_t segment = clamp_and_mask >> 8 & 0x1f, clamp = clamp_and_mask & 0x1f;
  const unsigned last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  unsigned source = lane;
  by &= 0x1f;
  if constexpr (kWay == Way::up) {
    source = lane - by;
    inside = static_cast<int>(lane) - static_cast<int>(by) >= static_cast<int>(last);
  } else if constexpr (kWay == Way::down) {
    source = lane + by;
    inside = source <= last;
  } else if constexpr (kWay == Way::butterfly) {
    source = lane ^ by;
    inside = source <= last;
  } else {
    source = first | (by & ~segment);
    inside = source <= last;
  }
  return inside ? source : lane;
}

template <Way kWay>
void shuffle(Block& block, const Instruction& instruction, Lanes lanes) {
  std::array<std::uint32_t, kWarp> given;
  const std::uint32_t* const values = slots<std::uint32_t>(block, instruction.from[0]);
  std::copy(values, values + kWarp, given.begin());
  const std::uint32_t* const by = slots<std::uint32_t>(block, instruction.from[1]);
  const std::uint32_t* const clamp = slots<std::uint32_t>(block, instruction.from[2]);
  for_lanes(lanes, [&](unsigned l) {
    bool inside = false;
    const unsigned source = source_lane<kWay>(l, by[l], clamp[l], inside);
    if ((lanes >> source & 1) == 0) {
      block.fail(l, format("reads lane %u, which is not in the mask %08x", source, lanes));
    }
    slots<std::uint32_t>(block, instruction.to[0])[l] = given[source];
    if (instruction.to[1] != kNowhere) slots<bool>(block, instruction.to[1])[l] = inside ? 1 : 0;
  });
}

template <class Result, class F>
void add_vote(Opcodes& all, const std::string& name, F) {
  all["vote.sync." + name] = {
      .execute =
          [](Block& block, const Instruction& instruction, Lanes lanes) {
            const std::uint32_t* const predicate = slots<bool>(block, instruction.from[0]);
            Lanes votes = 0;
            for_lanes(lanes, [&](unsigned l) { votes |= (predicate[l] != 0 ? 1u : 0u) << l; });
            const auto result = Held<Result>::put(static_cast<Result>(F{}(votes, lanes)));
            for_lanes(lanes,
                      [&](unsigned l) { slots<Result>(block, instruction.to[0])[l] = result; });
          },
      .flow = Flow::warp_operation,
      .has_result = true,
      .least_operands = 2};
}

template <Way kWay>
Opcode shuffle_opcode() {
  return {.execute = &shuffle<kWay>,
          .flow = Flow::warp_operation,
          .has_result = true,
          .least_operands = 4,
          .wide_constants = 0,
          .narrow_parts = false,
          .wide_mask = 0xf1};
}

}  // namespace

void add_warp_opcodes(Opcodes& all) {
  all["shfl.sync.up.b32"] = shuffle_opcode<Way::up>();
  all["shfl.sync.down.b32"] = shuffle_opcode<Way::down>();
  all["shfl.sync.bfly.b32"] = shuffle_opcode<Way::butterfly>();
  all["shfl.sync.idx.b32"] = shuffle_opcode<Way::index>();
  add_vote<std::uint32_t>(all, "ballot.b32", [](Lanes votes, Lanes) { return votes; });
  add_vote<bool>(all, "any.pred", [](Lanes votes, Lanes) { return votes != 0; });
  add_vote<bool>(all, "all.pred", [](Lanes votes, Lanes lanes) { return votes == lanes; });
  all["bar.warp.sync"] = {
      .execute = [](Block& block, const Instruction&, Lanes lanes) { block.warp_barrier(lanes); },
      .flow = Flow::warp_operation,
      .has_result = false,
      .least_operands = 1};
  // __syncthreads.
  all["bar.sync"] = {.execute = [](Block&, const Instruction&, Lanes) {},
                     .flow = Flow::barrier,
                     .has_result = false,
                     .least_operands = 1};
}

}  // namespace hetpipe::cuda::ptx
