// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ptx/ptx_run.h"

namespace hetpipe::cuda::ptx::test {
namespace barriers_test {

const char* const kThread = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 40;\n";

TEST(PtxBarriers, AllThreadsPassTogether) {
  run(entry(std::string(kThread) +
            "@%p1 bra on;\nadd.s32 %r2, %r1, 1;\non: bar.sync 0;\nbar.sync 0;"),
      70, {0});
}
TEST(PtxBarriers, AThreadThatLeavesBefore) {
  expect_failure(entry(std::string(kThread) + "@!%p1 ret;\nbar.sync 0;"), 41, {0},
                 "thread 40: has left, while thread 0 waits for all of its block");
}
TEST(PtxBarriers, TwoBarriersAreNotOne) {
  expect_failure(entry(std::string(kThread) + "@%p1 bra on;\nbar.sync 0;\nret;\non: bar.sync 0;"),
                 64, {0}, "waits at another barrier than thread");
}
TEST(PtxBarriers, OneThatIsSwitchedOffForSome) {
  expect_failure(entry(std::string(kThread) + "@%p1 bar.sync 0;"), 64, {0},
                 "has left, while thread");
}
TEST(PtxBarriers, AShuffleDoesNotWaitForABarrier) {
  expect_failure(
      entry(std::string(kThread) +
            "@%p1 bra on;\nbar.sync 0;\nret;\non: shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;"),
      64, {0}, "of which only 000000ff take part and 00000000 have left");
}

}  // namespace barriers_test
}  // namespace hetpipe::cuda::ptx::test
