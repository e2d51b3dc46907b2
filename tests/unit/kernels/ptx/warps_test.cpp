// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ptx/ptx_run.h"

// Lanes of a warp: where they part and meet, and what they do together.
namespace hetpipe::cuda::ptx::test {
namespace warps_test {

using testing::ElementsAre;

// The thread in %r1, of the out array's element in %rd1.
const char* const kThread =
    "ld.param.u64 %rd1, [p0];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %rd1, %r1, 4, %rd1;\n";

std::vector<std::uint32_t> values_of(const std::string& body, unsigned threads) {
  Array<std::uint32_t> out(threads);
  run(entry(kThread + body + "\nst.global.u32 [%rd1], %r2;"), threads, {out.address()});
  return out.values();
}

// Each lane counts to its own number, odd ones by another path.
TEST(PtxWarps, LanesPartAndMeet) {
  const auto got = values_of(
      "and.b32 %r3, %r1, 1;\nsetp.eq.s32 %p1, %r3, 1;\nmov.u32 %r2, 0;\nmov.u32 %r4, 0;\n"
      "again: setp.ge.u32 %p2, %r4, %r1;\n@%p2 bra done;\nadd.s32 %r4, %r4, 1;\n"
      "@%p1 bra odd;\nadd.s32 %r2, %r2, 1;\nbra.uni again;\n"
      "odd: add.s32 %r2, %r2, 100;\nbra.uni again;\n"
      // All are here again, or the shuffle would fail.
      "done: shfl.sync.bfly.b32 %r2, %r2, 0, 31, -1;",
      32);
  for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(got[i], i * (i % 2 == 1 ? 100 : 1));
}

TEST(PtxWarps, Predicates) {
  const auto got = values_of(
      "setp.lt.u32 %p1, %r1, 2;\nmov.u32 %r2, 5;\n@%p1 add.s32 %r2, %r2, 1;\n@!%p1 add.s32 %r2, "
      "%r2, 2;",
      4);
  EXPECT_THAT(got, ElementsAre(6, 6, 7, 7));
}

TEST(PtxWarps, SomeLeaveEarly) {
  Array<std::uint32_t> out(4);
  run(entry(std::string(kThread) +
            "setp.lt.u32 %p1, %r1, 2;\n@%p1 ret;\nst.global.u32 [%rd1], %r1;"),
      4, {out.address()});
  EXPECT_THAT(out.values(), ElementsAre(0, 0, 2, 3));
}

TEST(PtxWarps, SpecialRegisters) {
  Array<std::uint32_t> out(2 * 3 * 4 * 5);
  run(entry("ld.param.u64 %rd1, [p0];\nmov.u32 %r1, %ctaid.y;\nmov.u32 %r2, %nctaid.x;\nmov.u32 "
            "%r3, %ctaid.x;\n"
            "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %ntid.y;\nmov.u32 %r3, %tid.y;\n"
            "mad.lo.s32 %r1, %r1, %r2, %r3;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\n"
            "mad.lo.s32 %r1, %r1, %r2, %r3;\nmad.wide.u32 %rd1, %r1, 4, %rd1;\nst.global.u32 "
            "[%rd1], %r1;"),
      Shape{{2, 3}, {4, 5}}, {out.address()});
  for (unsigned i = 0; i < 120; ++i) ASSERT_EQ(out[i], i);
}

// By the rules of the manual: a lane that reads outside of its segment keeps its own value.
TEST(PtxWarps, Shuffles) {
  const auto lanes = [](const std::string& shuffle) {
    return values_of("add.s32 %r3, %r1, 100;\nshfl.sync." + shuffle + ", -1;", 32);
  };
  const auto down = lanes("down.b32 %r2, %r3, 3, 31"),
             down8 = lanes("down.b32 %r2, %r3, 3, 0x1807");
  const auto up = lanes("up.b32 %r2, %r3, 2, 0"), across = lanes("bfly.b32 %r2, %r3, 5, 31");
  const auto from = lanes("idx.b32 %r2, %r3, 6, 0x1807");
  for (unsigned i = 0; i < 32; ++i) {
    ASSERT_EQ(down[i], 100 + (i + 3 < 32 ? i + 3 : i));
    ASSERT_EQ(down8[i], 100 + (i % 8 + 3 < 8 ? i + 3 : i));
    ASSERT_EQ(up[i], 100 + (i >= 2 ? i - 2 : i));
    ASSERT_EQ(across[i], 100 + (i ^ 5));
    ASSERT_EQ(from[i], 100 + i / 8 * 8 + 6);
  }
  const auto inside =
      values_of("shfl.sync.down.b32 %r3|%p1, %r1, 3, 31, -1;\nselp.u32 %r2, 1, 0, %p1;", 32);
  for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(inside[i], i < 29 ? 1u : 0u);
}

TEST(PtxWarps, Votes) {
  const auto ballot = values_of("setp.lt.u32 %p1, %r1, 5;\nvote.sync.ballot.b32 %r2, %p1, -1;", 32);
  EXPECT_EQ(ballot[31], 0x1fu);
  const auto any = values_of(
      "setp.eq.u32 %p1, %r1, 5;\nvote.sync.any.pred %p2, %p1, -1;\nvote.sync.all.pred %p3, %p1, "
      "-1;\n"
      "selp.u32 %r2, 1, 0, %p2;\n@%p3 add.s32 %r2, %r2, 2;",
      32);
  EXPECT_EQ(any[0], 1u);
}

// Groups with masks of their own at one instruction do not wait for one another.
TEST(PtxWarps, PartsOfAWarp) {
  const auto got = values_of(
      "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r3, 0xffff, 0xffff0000, %p1;\n@%p1 bra half;\nbra.uni "
      "half;\n"
      "half: @%p1 bra low;\nshfl.sync.bfly.b32 %r2, %r1, 15, 31, 0xffff0000;\nbra.uni end;\n"
      "low: shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffff;\nend:",
      32);
  for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(got[i], i < 16 ? (i ^ 1) : (i ^ 15));
}

TEST(PtxWarps, MasksHoldTheLanesThatTakePart) {
  Array<std::uint32_t> out(32);
  const auto fails = [&](const std::string& body, unsigned threads, const char* words) {
    expect_failure(entry(kThread + body + "\nst.global.u32 [%rd1], %r2;"), threads, {out.address()},
                   words);
  };
  fails("shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0x7fffffff;", 32,
        "thread 31: is not in its own mask 7fffffff");
  fails("setp.eq.u32 %p1, %r1, 9;\n@%p1 ret;\nshfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", 32,
        "waits for the lanes of mask ffffffff, of which only fffffdff take part and 00000200 have "
        "left");
  fails("shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;", 20, "names lanes that the block does not have");
  fails(
      "setp.lt.u32 %p1, %r1, 16;\n@!%p1 bra end;\nshfl.sync.down.b32 %r2, %r1, 4, 31, "
      "0xffff;\nend:",
      32, "thread 12: reads lane 16, which is not in the mask 0000ffff");
  fails(
      "setp.lt.u32 %p1, %r1, 16;\nselp.b32 %r3, -1, 0xffffff00, %p1;\n"
      "shfl.sync.bfly.b32 %r2, %r1, 1, 31, %r3;",
      32, "thread 16: has mask ffffff00 where thread 0 has ffffffff");
  fails("setp.lt.u32 %p1, %r1, 16;\n@%p1 vote.sync.ballot.b32 %r2, %p1, -1;", 32,
        "waits for the lanes of mask ffffffff, of which only 0000ffff take part");
  fails("setp.lt.u32 %p1, %r1, 16;\n@%p1 bar.warp.sync -1;", 32,
        "of which only 0000ffff take part");
}

}  // namespace warps_test
}  // namespace hetpipe::cuda::ptx::test
