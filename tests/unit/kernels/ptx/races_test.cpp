// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ptx/ptx_run.h"

namespace hetpipe::cuda::ptx::test {
namespace races_test {

// %r1: the thread; %r2, %rd2: its element's place in shared and in global memory; %r3, %rd3: that
// of its neighbour, one further round the block; %r4: 1 to the block's size.
const char* const kThread =
    "mov.u32 %r1, %tid.x;\nmov.u32 %r4, %ntid.x;\nadd.s32 %r5, %r1, 1;\nrem.u32 %r5, %r5, %r4;\n"
    "mov.u32 %r6, tile;\nmad.lo.s32 %r2, %r1, 4, %r6;\nmad.lo.s32 %r3, %r5, 4, %r6;\n"
    "ld.param.u64 %rd1, [p0];\nmad.wide.u32 %rd2, %r1, 4, %rd1;\nmad.wide.u32 %rd3, %r5, 4, %rd1;\n"
    "add.s32 %r4, %r1, 1;\n";
const char* const kTile = ".shared .align 4 .b8 tile[256];\n";

std::string with_tile(const std::string& body) { return entry(kThread + body, 1, kTile); }

class PtxRaces : public testing::Test {
 protected:
  void passes(const std::string& body, const Shape& shape = {{}, {64}}) {
    for (const Order order : {Order::ascending, Order::descending}) {
      Array<std::uint32_t> x(256);
      run(with_tile(body), shape, {x.address()}, order);
    }
  }
  void fails(const std::string& body, const char* words, const Shape& shape = {{}, {64}}) {
    for (const Order order : {Order::ascending, Order::descending}) {
      Array<std::uint32_t> x(256);
      expect_failure_in(order, with_tile(body), shape, {x.address()}, words);
    }
  }
};

TEST_F(PtxRaces, SharedMemoryNeedsABarrierBetween) {
  const std::string write = "st.shared.u32 [%r2], %r1;\n", read = "ld.shared.u32 %r7, [%r3];\n";
  passes(write + "bar.sync 0;\n" + read);
  passes(write + "bar.sync 0;\n" + read + "bar.sync 0;\n" + write);
  fails(write + read, "");
  fails(write + "bar.sync 0;\n" + read + write, "a race: writes shared offset");
  // Within a warp as well, and a shuffle orders nothing.
  fails(write + "bar.sync 0;\n" + read + "shfl.sync.bfly.b32 %r8, %r1, 1, 31, -1;\n" + write,
        "with no barrier between", {{}, {32}});
  passes(write + "bar.sync 0;\n" + read + "bar.warp.sync -1;\n" + write, {{}, {32}});
  // But not between warps.
  fails(write + "bar.sync 0;\n" + read + "bar.warp.sync -1;\n" + write, "with no barrier between",
        {{}, {64}});
}

TEST_F(PtxRaces, SharedMemoryThatAllReadOrAllWrite) {
  const std::string set = "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r6], 7;\n";
  const std::string all_read = "ld.shared.u32 %r7, [%r6];\n";
  passes(set + "bar.sync 0;\n" + all_read + "bar.sync 0;\n" + set);
  fails(set + "bar.sync 0;\n" + all_read + set, "a race: writes shared offset 0, which thread");
  fails("st.shared.u32 [%r6], 7;", "a race: writes shared offset 0, which thread 0 wrote",
        {{}, {2}});
  passes(set + "bar.sync 0;\nred.shared.add.u32 [%r6], 1;");
}

// A warp barrier of some lanes orders those.
TEST_F(PtxRaces, BarriersOfPartsOfAWarp) {
  const auto hand_over = [](const char* mask) {
    return "setp.eq.u32 %p1, %r1, 0;\n@%p1 st.shared.u32 [%r6], 7;\nsetp.gt.u32 %p2, %r1, 3;\n"
           "@%p2 bra end;\nbar.warp.sync 15;\nend: setp.eq.u32 %p3, %r1, " +
           std::string(mask) + ";\n@%p3 ld.shared.u32 %r7, [%r6];";
  };
  passes(hand_over("3"), {{}, {32}});
  fails(hand_over("4"), "thread 4: a race: reads shared offset 0, which thread 0 wrote",
        {{}, {32}});
}

TEST_F(PtxRaces, GlobalMemoryWithinABlock) {
  const std::string write = "st.global.u32 [%rd2], %r4;\n", read = "ld.global.u32 %r7, [%rd3];\n";
  passes(write);
  fails(read + write, "in no order");
  passes("ld.global.u32 %r7, [%rd3];\nbar.sync 0;\nadd.s32 %r4, %r4, %r7;\n" + write);
}

TEST_F(PtxRaces, GlobalMemoryOfBlocksIsNotOrdered) {
  // Each block's thread 0 adds to the same element, with barriers, which order nothing here.
  fails(
      "bar.sync 0;\nsetp.eq.u32 %p1, %r1, 0;\n@!%p1 ret;\nmov.u32 %r7, %ctaid.x;\nadd.s32 %r7, "
      "%r7, 500;\n"
      "st.global.u32 [%rd1], %r7;",
      "which another block wrote, in no order", {{3}, {32}});
  fails(
      "mov.u32 %r7, %ctaid.x;\nsetp.eq.u32 %p1, %r7, 1;\nld.global.u32 %r8, [%rd2];\n"
      "add.s32 %r8, %r8, 1;\n@%p1 st.global.u32 [%rd2], %r8;",
      "which another block read, in no order", {{3}, {32}});
}

TEST_F(PtxRaces, WhatMayHappenInGlobalMemory) {
  passes("ld.global.u32 %r7, [%rd1];", {{3}, {64}});     // all read
  passes("st.global.u32 [%rd1], 77;", {{3}, {64}});      // all write the same
  passes("red.global.add.u32 [%rd1], 1;", {{3}, {64}});  // atomics
  passes(
      "mov.u32 %r7, %ctaid.x;\nadd.s32 %r7, %r7, 900;\nmul.wide.u32 %rd4, %r7, 1;\nsub.s64 %rd4, "
      "%rd4, 900;\n"
      "add.s64 %rd4, %rd4, %rd1;\nst.global.u8 [%rd4], %r7;",  // neighbouring bytes
      {{64}, {1}});
}

}  // namespace races_test
}  // namespace hetpipe::cuda::ptx::test
