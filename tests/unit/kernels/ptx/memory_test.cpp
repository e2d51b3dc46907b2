// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/ptx/ptx_run.h"

namespace hetpipe::cuda::ptx::test {
namespace memory_test {

const char* const kAddress = "ld.param.u64 %rd1, [p0];\n";

TEST(PtxMemory, LoadsExtendAndVectorsHaveTheirOrder) {
  Array<std::uint64_t> in({0x8807060504030281ull, 0x90ull}), out(5);
  run(entry("ld.param.u64 %rd1, [p0];\nld.param.u64 %rd2, [p1];\n"
            "ld.global.s8 %rd3, [%rd1];\nst.global.u64 [%rd2], %rd3;\n"
            "ld.global.u8 %rs1, [%rd1+8];\ncvt.u64.u16 %rd3, %rs1;\nst.global.u64 [%rd2+8], %rd3;\n"
            "ld.global.v4.u16 {%rs1, _, %rs3, %rs4}, [%rd1];\nst.global.v2.u16 [%rd2+16], {%rs4, "
            "%rs1};\n"
            "st.global.v2.u8 [%rd2+20], {%rs3, 255};\n"
            "ld.global.s16 %r1, [%rd1+6];\nst.global.s32 [%rd2+24], %r1;\n"
            "ld.global.v2.u64 {%rd4, %rd5}, [%rd1+0];\nadd.s64 %rd4, %rd4, %rd5;\n"
            "st.global.b64 [%rd2+32], %rd4;",
            2),
      1, {in.address(), out.address()});
  EXPECT_EQ(out[0], 0xffffffffffffff81ull);
  EXPECT_EQ(out[1], 0x90u);
  EXPECT_EQ(out[2], 0xff05'0281'8807ull);
  EXPECT_EQ(out[3], 0xffff8807u);
  EXPECT_EQ(out[4], 0x8807060504030311ull);
}

TEST(PtxMemory, GlobalAccessesStayInsideOfOneAllocation) {
  Array<std::uint32_t> x(4);
  const auto at = [&](const std::string& access) { return entry(kAddress + access); };
  run(at("ld.global.u32 %r1, [%rd1+12];"), 1, {x.address()});
  expect_failure(at("ld.global.u32 %r1, [%rd1+16];"), 1, {x.address()},
                 "thread 0: reads 4 bytes at 0x");
  expect_failure(at("ld.global.u32 %r1, [%rd1+-4];"), 1, {x.address()},
                 "outside of every allocation");
  expect_failure(at("ld.global.v2.u64 {%rd2, %rd3}, [%rd1+8];"), 1, {x.address()}, "");
  expect_failure(at("st.u8 [%rd1+16], 1;"), 1, {x.address()}, "writes 1 bytes at 0x");
  expect_failure(at("st.global.u32 [%rd1], 1;"), 1, {0}, "outside of every allocation");
  // Of each thread, the last alone.
  const std::string each =
      at("mov.u32 %r2, %tid.x;\nmad.wide.u32 %rd1, %r2, 4, %rd1;\n"
         "st.global.u32 [%rd1], %r2;");
  run(each, 4, {x.address()});
  expect_failure(each, 5, {x.address()}, "thread 4: writes 4 bytes");
}

TEST(PtxMemory, AccessesAreAligned) {
  Array<std::uint64_t> x(4);
  const auto at = [&](const std::string& access) { return entry(kAddress + access); };
  expect_failure(at("ld.global.u32 %r1, [%rd1+2];"), 1, {x.address()}, "global address 0x");
  expect_failure(at("ld.global.v2.u32 {%r1, %r2}, [%rd1+4];"), 1, {x.address()},
                 "of 8 bytes is not aligned, at test.ptx:");
  expect_failure(
      entry("mov.u32 %r1, tile;\nst.shared.u16 [%r1+1], 1;", 1, ".shared .align 4 .b8 tile[8];\n"),
      1, {0}, "shared address");
}

// A gap lies between variables: what leaves one does not come to the next.
TEST(PtxMemory, SharedAndLocalAccessesStayInsideOfOneVariable) {
  for (const std::string space : {"shared", "local"}) {
    const std::string variables =
        "." + space + " .align 4 .b8 one[8];\n." + space + " .align 4 .b8 two[8];\n";
    const auto at = [&](const std::string& offset) {
      return entry("mov.u64 %rd1, one;\nst." + space + ".u32 [%rd1+" + offset + "], 7;", 1,
                   variables);
    };
    run(at("4"), 1, {0});
    expect_failure(at("8"), 1, {0}, (space + " offset 8, outside of").c_str());
    expect_failure(at("-4"), 1, {0}, (space + " offset -4, outside of").c_str());
  }
  expect_failure(entry("ld.param.u64 %rd1, [p0+8];"), 1, {0}, "at parameter offset 8, outside of");
}

TEST(PtxMemory, SharedMemoryIsWrittenBeforeItIsRead) {
  const std::string tile = ".shared .align 4 .b8 tile[8];\n";
  run(entry("mov.u32 %r1, tile;\nst.shared.u32 [%r1], 7;\nld.shared.u32 %r2, [%r1];", 1, tile), 1,
      {0});
  expect_failure(
      entry("mov.u32 %r1, tile;\nst.shared.u16 [%r1], 7;\nld.shared.u32 %r2, [%r1];", 1, tile), 1,
      {0}, "reads byte 2 of 4 at shared offset 0, which nobody has written");
  // Nor does a block see what another one left.
  expect_failure(entry("mov.u32 %r1, tile;\nmov.u32 %r3, %ctaid.x;\nsetp.ne.s32 %p1, %r3, 0;\n"
                       "@%p1 bra read;\nst.shared.u32 [%r1], 7;\nread: ld.shared.u32 %r2, [%r1];",
                       1, tile),
                 Shape{{2}, {1}}, {0}, "block (1, 0, 0), thread 0: reads byte 0 of 4");
}

// Generic addresses find their space; each thread has local memory of its own.
TEST(PtxMemory, GenericAddresses) {
  Array<std::uint32_t> out(64);
  run(entry("mov.u32 %r1, %tid.x;\nmov.u64 %rd1, stack;\ncvta.local.u64 %rd2, %rd1;\n"
            "st.u32 [%rd2+4], %r1;\nld.local.u32 %r2, [%rd1+4];\n"
            "mov.u64 %rd3, tile;\nmad.wide.u32 %rd3, %r1, 4, %rd3;\ncvta.shared.u64 %rd4, %rd3;\n"
            "st.u32 [%rd4], %r2;\ncvta.to.shared.u64 %rd5, %rd4;\nld.shared.u32 %r3, [%rd5];\n"
            "mov.b64 %rd6, p0;\ncvta.param.u64 %rd6, %rd6;\nld.u64 %rd7, [%rd6];\n"
            "mad.wide.u32 %rd7, %r1, 4, %rd7;\nst.u32 [%rd7], %r3;",
            1, ".local .align 4 .b8 stack[8];\n.shared .align 4 .b8 tile[256];\n"),
      64, {out.address()});
  for (unsigned i = 0; i < 64; ++i) ASSERT_EQ(out[i], i);
}

TEST(PtxMemory, TablesOfTheModule) {
  Array<std::uint32_t> out(1);
  const std::string table = ".global .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 1};\n";
  const std::string text = entry(
      "ld.param.u64 %rd1, [p0];\nmov.u64 %rd2, table;\n"
      "ld.global.nc.u32 %r1, [%rd2+4];\nst.global.u32 [%rd1], %r1;");
  run(table + text, 1, {out.address()});
  EXPECT_EQ(out[0], 0x102u);
}

TEST(PtxMemory, AtomicsAdd) {
  Array<std::uint32_t> out(65);
  run(entry(std::string(kAddress) + "mov.u32 %r1, %tid.x;\natom.global.add.u32 %r2, [%rd1], 1;\n"
                                    "mad.wide.u32 %rd2, %r1, 4, %rd1;\nst.global.u32 [%rd2+4], "
                                    "%r2;\nred.global.add.u32 [%rd1], 2;"),
      64, {out.address()});
  EXPECT_EQ(out[0], 192u);
}

TEST(PtxMemory, ArgumentsAreThoseOfTheEntry) {
  EXPECT_THAT(
      [] { run(entry("", 2), 1, {0}); },
      testing::ThrowsMessage<PtxFailure>(testing::HasSubstr("1 arguments for 2 parameters")));
  EXPECT_THAT([] { run(".entry kernel(.param .u32 x) .maxntid 8 { ret; }", 1, {0}); },
              testing::ThrowsMessage<PtxFailure>(
                  testing::HasSubstr("argument 0 has 8 bytes, its parameter 4")));
  EXPECT_THAT([] { run(".entry kernel() .maxntid 8 { ret; }", 9, {}); },
              testing::ThrowsMessage<PtxFailure>(
                  testing::HasSubstr("blocks of 9 threads, compiled for 8 at most")));
  EXPECT_THAT(
      [] { run(".entry other() { ret; }", 9, {}); },
      testing::ThrowsMessage<PtxFailure>(testing::HasSubstr("no PTX has the entry kernel")));
}

}  // namespace memory_test
}  // namespace hetpipe::cuda::ptx::test
