// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ptx/ptx_run.h"

// One sound kernel, and three faults of the kinds that a GPU forgives most of the time, each
// planted into it. What is planted is all that differs.
namespace hetpipe::cuda::ptx::test {
namespace faults_test {

constexpr unsigned kThreads = 128;

// sum[block] = the sum of x[block * 128 + thread] where that is less than count: sums of warps by
// shuffles, of which the first warp adds up by way of shared memory.
std::string block_sum() {
  return entry(R"(
    ld.param.u64 %rd1, [p0];
    ld.param.u64 %rd2, [p1];
    ld.param.u64 %rd3, [p2];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.s32 %r3, %r2, 128, %r1;
    cvt.u64.u32 %rd4, %r3;
    mov.u32 %r4, 0;
    setp.ge.s64 %p1, %rd4, %rd3;
    @%p1 bra add_up;
    shl.b64 %rd5, %rd4, 2;
    add.s64 %rd6, %rd1, %rd5;
    ld.global.u32 %r4, [%rd6];
  add_up:
    mov.u32 %r5, 16;
  next:
    shfl.sync.bfly.b32 %r6|%p2, %r4, %r5, 31, -1;
    add.s32 %r4, %r4, %r6;
    shr.u32 %r5, %r5, 1;
    setp.ne.s32 %p3, %r5, 0;
    @%p3 bra next;
    and.b32 %r7, %r1, 31;
    setp.ne.s32 %p4, %r7, 0;
    mov.u32 %r8, parts;
    shr.u32 %r9, %r1, 5;
    mad.lo.s32 %r10, %r9, 4, %r8;
    @%p4 bra wait;
    st.shared.u32 [%r10], %r4;
  wait:
    bar.sync 0;
    setp.ne.s32 %p5, %r1, 0;
    @%p5 bra end;
    ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [parts];
    add.s32 %r11, %r11, %r12;
    add.s32 %r13, %r13, %r14;
    add.s32 %r11, %r11, %r13;
    mad.wide.u32 %rd7, %r2, 4, %rd2;
    st.global.u32 [%rd7], %r11;
  end:)",
               3, ".shared .align 16 .b8 parts[16];\n");
}

std::string planted(const std::string& what, const std::string& instead) {
  std::string text = block_sum();
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(text.find(what, at + 1), std::string::npos);
  return text.replace(at, what.size(), instead);
}

class PtxFaults : public testing::Test {
 protected:
  void expect(const std::string& text, const char* words) {
    Array<std::uint32_t> x(std::vector<std::uint32_t>(300, 2)), sums(3);
    expect_failure(text, Shape{{3}, {kThreads}}, {x.address(), sums.address(), 300}, words);
  }
};

TEST_F(PtxFaults, TheKernelIsSound) {
  for (const Order order : {Order::ascending, Order::descending}) {
    Array<std::uint32_t> x(std::vector<std::uint32_t>(300, 2)), sums(3);
    run(block_sum(), Shape{{3}, {kThreads}}, {x.address(), sums.address(), 300}, order);
    EXPECT_THAT(sums.values(), testing::ElementsAre(256, 256, 88));
  }
}

TEST_F(PtxFaults, ARemovedBarrier) { expect(planted("bar.sync 0;", ""), "shared offset"); }
TEST_F(PtxFaults, AnOffByOne) {
  expect(planted("setp.ge.s64", "setp.gt.s64"), "block (2, 0, 0), thread 44: reads 4 bytes at 0x");
}
TEST_F(PtxFaults, AWrongShuffleMask) {
  expect(planted("31, -1", "31, 0xfffffffe"), "is not in its own mask fffffffe");
}

}  // namespace faults_test
}  // namespace hetpipe::cuda::ptx::test
