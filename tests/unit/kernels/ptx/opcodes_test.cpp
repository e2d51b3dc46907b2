// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/ptx/ptx_run.h"

// Single instructions: what goes in, and what the manual of PTX says must come out, as bits.
namespace hetpipe::cuda::ptx::test {
namespace opcodes_test {

using Bits = std::uint64_t;
Bits f(float x) { return std::bit_cast<std::uint32_t>(x); }
Bits d(double x) { return std::bit_cast<std::uint64_t>(x); }
Bits s(std::int32_t x) { return static_cast<std::uint32_t>(x); }
Bits l(std::int64_t x) { return static_cast<std::uint64_t>(x); }
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

// Registers by the letters of `kinds`, result first: p predicate, h 16 bits, r 32, d 64, f and F
// floats.
struct Case {
  std::string opcode, kinds;
  std::vector<Bits> operands;
  Bits result;
};

std::string register_of(char kind, std::size_t number) {
  const std::string n = std::to_string(number);
  return kind == 'p'   ? "%p" + n
         : kind == 'h' ? "%rs" + n
         : kind == 'r' ? "%r" + n
         : kind == 'd' ? "%rd" + n
         : kind == 'f' ? "%f" + n
                       : "%fd" + n;
}
const char* type_of(char kind) {
  return kind == 'h' ? "u16" : kind == 'r' || kind == 'f' ? "b32" : "b64";
}

// With operands out of memory; on 5 lanes, so not on all of a warp.
Bits result_of(const Case& c, unsigned lanes) {
  Array<Bits> in(c.operands), out(lanes);
  std::string body =
      "ld.param.u64 %rd60, [p0];\nld.param.u64 %rd61, [p1];\n"
      "mov.u32 %r60, %tid.x;\nmad.wide.u32 %rd61, %r60, 8, %rd61;\n";
  std::string operands = register_of(c.kinds[0], 0);
  for (std::size_t i = 1; i < c.kinds.size(); ++i) {
    const std::string place = "[%rd60+" + std::to_string(8 * (i - 1)) + "];\n";
    if (c.kinds[i] == 'p') {
      body +=
          "ld.global.u32 %r59, " + place + "setp.ne.s32 " + register_of('p', i) + ", %r59, 0;\n";
    } else {
      body += std::string("ld.global.") + type_of(c.kinds[i]) + " " + register_of(c.kinds[i], i) +
              ", " + place;
    }
    operands += ", " + register_of(c.kinds[i], i);
  }
  body += c.opcode + " " + operands + ";\n";
  if (c.kinds[0] == 'p') {
    body += "selp.u32 %r59, 1, 0, %p0;\nst.global.u32 [%rd61], %r59;\n";
  } else {
    body += std::string("st.global.") + type_of(c.kinds[0]) + " [%rd61], " +
            register_of(c.kinds[0], 0) + ";\n";
  }
  run(entry(body, 2), lanes, {in.address(), out.address()});
  for (unsigned i = 1; i < lanes; ++i) EXPECT_EQ(out[i], out[0]) << c.opcode;
  return out[0];
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    for (const unsigned lanes : {5u, 32u}) {
      const Bits got = result_of(c, lanes);
      if (c.kinds[0] == 'f' &&
          std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(c.result)))) {
        EXPECT_TRUE(std::isnan(std::bit_cast<float>(static_cast<std::uint32_t>(got)))) << c.opcode;
        continue;
      }
      EXPECT_EQ(got, c.result) << c.opcode << " of " << testing::PrintToString(c.operands)
                               << std::hex << ": " << got << " for " << c.result;
    }
  }
}

TEST(PtxOpcodes, Integers) {
  check({{"add.s32", "rrr", {s(-5), 3}, s(-2)},
         {"add.s64", "ddd", {l(-5), 3}, l(-2)},
         {"add.s16", "hhh", {0xffff, 3}, 2},
         {"sub.s32", "rrr", {3, 5}, s(-2)},
         {"mul.lo.s32", "rrr", {s(-7), 6}, s(-42)},
         {"mul.lo.s64", "ddd", {l(1) << 62, 6}, l(1) << 63},
         {"mul.hi.u32", "rrr", {0xffffffff, 3}, 2},
         {"mul.hi.s32", "rrr", {s(-1), 3}, s(-1)},
         {"mul.wide.s32", "drr", {s(-3), 5}, l(-15)},
         {"mul.wide.u32", "drr", {0xffffffff, 2}, 0x1fffffffeull},
         {"mul.wide.u16", "rhh", {0xffff, 3}, 0x2fffd},
         {"mad.lo.s32", "rrrr", {s(-2), 3, 10}, 4},
         {"mad.wide.u32", "drrd", {0xffffffff, 2, 5}, 0x200000003ull},
         {"div.s32", "rrr", {s(-7), 2}, s(-3)},
         {"div.u32", "rrr", {s(-7), 2}, 0x7ffffffc},
         {"rem.s32", "rrr", {s(-7), 2}, s(-1)},
         {"rem.s64", "ddd", {l(-7), 4}, l(-3)},
         {"div.s32", "rrr", {s(std::numeric_limits<std::int32_t>::min()), s(-1)}, 0x80000000},
         {"div.u64", "ddd", {7, 0}, ~0ull},
         {"min.s64", "ddd", {l(-1), 1}, l(-1)},
         {"max.u64", "ddd", {l(-1), 1}, l(-1)},
         {"neg.s32", "rr", {5}, s(-5)},
         {"neg.s64", "dd", {5}, l(-5)},
         {"abs.s32", "rr", {s(-5)}, 5}});
}

TEST(PtxOpcodes, Bits) {
  check({{"and.b32", "rrr", {0xff00ff, 0x0ff0f0}, 0x0f00f0},
         {"or.b64", "ddd", {0xf0, 0x0f}, 0xff},
         {"xor.b32", "rrr", {0xff, 0x0f}, 0xf0},
         {"not.b32", "rr", {0xf}, 0xfffffff0},
         {"and.pred", "ppp", {1, 0}, 0},
         {"or.pred", "ppp", {1, 0}, 1},
         {"xor.pred", "ppp", {1, 1}, 0},
         {"not.pred", "pp", {1}, 0},
         {"shl.b32", "rrr", {3, 4}, 48},
         {"shl.b32", "rrr", {3, 32}, 0},
         {"shl.b64", "ddr", {3, 40}, 3ull << 40},
         {"shr.u32", "rrr", {0x80000000, 31}, 1},
         {"shr.s32", "rrr", {0x80000000, 40}, s(-1)},
         {"shr.s64", "ddr", {l(-8), 1}, l(-4)},
         {"shr.u64", "ddr", {l(-8), 64}, 0},
         {"bfi.b32", "rrrrr", {0xff, 0x12345678, 8, 4}, 0x12345f78},
         {"bfi.b64", "dddrr", {0xff, 0, 60, 8}, 0xfull << 60},
         {"bfe.u32", "rrrr", {0x12345678, 8, 12}, 0x456},
         {"prmt.b32", "rrrr", {0x33221100, 0x77665544, 0x7250}, 0x77225500},
         {"prmt.b32", "rrrr", {0x00008000, 0, 0x0099}, 0x0000ffff},
         {"shf.l.wrap.b32", "rrrr", {0x80000001, 0x10, 36}, 0x108},
         {"shf.r.wrap.b32", "rrrr", {0x80000001, 0x13, 4}, 0x38000000},
         {"popc.b32", "rr", {0xf0f0}, 8},
         {"clz.b32", "rr", {0x00ff0000}, 8}});
}

TEST(PtxOpcodes, Floats) {
  check({{"add.f32", "fff", {f(1.5f), f(2.25f)}, f(3.75f)},
         {"add.rn.f64", "FFF", {d(1.5), d(2.25)}, d(3.75)},
         {"sub.f32", "fff", {f(1), f(0x1p-25f)}, f(1)},
         {"mul.f32", "fff", {f(3), f(-0.5f)}, f(-1.5f)},
         // (1 + 2^-12)^2 - 1 - 2^-11 = 2^-24, which a product rounded by itself loses.
         {"fma.rn.f32", "ffff", {f(1 + 0x1p-12f), f(1 + 0x1p-12f), f(-1 - 0x1p-11f)}, f(0x1p-24f)},
         {"div.rn.f32", "fff", {f(1), f(3)}, 0x3eaaaaab},
         {"div.rn.f64", "FFF", {d(1), d(3)}, d(1.0 / 3)},
         {"rcp.rn.f32", "ff", {f(4)}, f(0.25f)},
         {"rcp.approx.ftz.f32", "ff", {f(0x1p-140f)}, f(kInf)},
         {"sqrt.rn.f32", "ff", {f(2)}, 0x3fb504f3},
         {"neg.f32", "ff", {f(2)}, f(-2)},
         {"abs.f32", "ff", {f(-2)}, f(2)},
         {"min.f32", "fff", {f(kNan), f(2)}, f(2)},
         {"max.f32", "fff", {f(-1), f(kNan)}, f(-1)},
         {"max.f32", "fff", {f(-0.0f), f(0.0f)}, f(0.0f)},
         {"copysign.f32", "fff", {f(-1), f(3)}, f(-3)},
         {"ex2.approx.f32", "ff", {f(-3)}, f(0.125f)},
         {"ex2.approx.ftz.f32", "ff", {f(-130)}, f(0)},
         {"lg2.approx.f32", "ff", {f(8)}, f(3)},
         {"rsqrt.approx.f32", "ff", {f(16)}, f(0.25f)}});
}

// 1 + 2^-25 lies between 1 and the next float; so does 1 - 2^-26 below 1.
TEST(PtxOpcodes, RoundingsTowardsLessAndTowardsZero) {
  const float below = 1 - 0x1p-24f;
  check({{"fma.rm.f32", "ffff", {f(1), f(1), f(0x1p-25f)}, f(1)},
         {"fma.rm.f32", "ffff", {f(1), f(1), f(-0x1p-40f)}, f(below)},
         {"fma.rm.f32", "ffff", {f(1), f(1), f(-0x1p-100f)}, f(below)},
         {"fma.rm.f32", "ffff", {f(-1), f(1), f(-0x1p-100f)}, f(-1 - 0x1p-23f)},
         {"fma.rm.f32", "ffff", {f(0x1p127f), f(2), f(0)}, f(std::numeric_limits<float>::max())},
         {"fma.rm.f32", "ffff", {f(kInf), f(1), f(0)}, f(kInf)},
         {"add.rz.f32", "fff", {f(1), f(-0x1p-40f)}, f(below)},
         {"add.rz.f32", "fff", {f(-1), f(0x1p-40f)}, f(-below)},
         {"add.rz.f32", "fff", {f(-1), f(-0x1p-24f)}, f(-1)}});
}

TEST(PtxOpcodes, Comparisons) {
  check({{"setp.lt.s32", "prr", {s(-1), 1}, 1},       {"setp.lt.u32", "prr", {s(-1), 1}, 0},
         {"setp.ge.s64", "pdd", {5, 5}, 1},           {"setp.gt.s16", "phh", {0xffff, 0}, 0},
         {"setp.eq.b64", "pdd", {5, 5}, 1},           {"setp.ne.s16", "phh", {5, 5}, 0},
         {"setp.le.u64", "pdd", {l(-1), 1}, 0},       {"setp.lt.f32", "pff", {f(kNan), f(1)}, 0},
         {"setp.ltu.f32", "pff", {f(kNan), f(1)}, 1}, {"setp.ltu.f32", "pff", {f(2), f(1)}, 0},
         {"setp.leu.f32", "pff", {f(1), f(1)}, 1},    {"setp.gtu.f32", "pff", {f(1), f(1)}, 0},
         {"setp.geu.f32", "pff", {f(0), f(kNan)}, 1}, {"setp.eq.f32", "pff", {f(kNan), f(kNan)}, 0},
         {"setp.ne.f32", "pff", {f(kNan), f(1)}, 0},  {"setp.neu.f32", "pff", {f(kNan), f(1)}, 1},
         {"setp.equ.f32", "pff", {f(kNan), f(1)}, 1}, {"setp.num.f32", "pff", {f(1), f(kNan)}, 0},
         {"setp.nan.f32", "pff", {f(kNan), f(1)}, 1}, {"setp.nan.f32", "pff", {f(1), f(1)}, 0},
         {"setp.leu.f64", "pFF", {d(2), d(1)}, 0},    {"selp.f32", "fffp", {f(1), f(2), 1}, f(1)},
         {"selp.b64", "dddp", {1, 2, 0}, 2},          {"selp.b16", "hhhp", {1, 2, 0}, 2}});
}

TEST(PtxOpcodes, ConversionsOfIntegers) {
  check({{"cvt.s64.s32", "dr", {s(-5)}, l(-5)},
         {"cvt.u64.u32", "dr", {s(-5)}, 0xfffffffbull},
         {"cvt.u32.u64", "rd", {0x1234567890ull}, 0x34567890},
         {"cvt.u32.u16", "rh", {0xfffe}, 0xfffe},
         {"cvt.s32.s16", "rh", {0xfffe}, s(-2)},
         {"cvt.s64.s16", "dh", {0xfffe}, l(-2)},
         {"cvt.s32.s8", "rh", {0x80}, s(-128)},
         {"cvt.u16.u32", "hr", {0x12345}, 0x2345},
         {"cvt.s16.s8", "hh", {0x80}, 0xff80},
         {"cvt.u64.u16", "dh", {0xffff}, 0xffff}});
}

TEST(PtxOpcodes, ConversionsOfFloats) {
  check({{"cvt.rni.f32.f32", "ff", {f(2.5f)}, f(2)},
         {"cvt.rzi.f32.f32", "ff", {f(-2.5f)}, f(-2)},
         {"cvt.rmi.f32.f32", "ff", {f(-2.5f)}, f(-3)},
         {"cvt.rpi.f32.f32", "ff", {f(-2.5f)}, f(-2)},
         {"cvt.sat.f32.f32", "ff", {f(1.5f)}, f(1)},
         {"cvt.sat.f32.f32", "ff", {f(kNan)}, f(0)},
         {"cvt.rni.s32.f32", "rf", {f(3.5f)}, 4},
         {"cvt.rzi.s32.f32", "rf", {f(3e9f)}, 0x7fffffff},
         {"cvt.rzi.s32.f32", "rf", {f(kNan)}, 0},
         {"cvt.rzi.s64.f32", "df", {f(-2.9f)}, l(-2)},
         {"cvt.rzi.s64.f32", "df", {f(kNan)}, 1ull << 63},
         {"cvt.rzi.u32.f32", "rf", {f(-1)}, 0},
         {"cvt.rn.f32.s32", "fr", {16777217}, f(16777216)},
         {"cvt.rn.f32.u32", "fr", {0xffffffff}, f(4294967296.0f)},
         {"cvt.rn.f32.s64", "fd", {l(-3)}, f(-3)},
         {"cvt.rn.f32.u16", "fh", {0xffff}, f(65535)},
         {"cvt.rn.f64.s64", "Fd", {l(-3)}, d(-3)},
         {"cvt.f64.f32", "Ff", {f(0.1f)}, d(double{0.1f})},
         {"cvt.rn.f32.f64", "fF", {d(1 + 0x1p-24)}, f(1)},
         {"cvt.rn.f16.f32", "hf", {f(1.0009765625f)}, 0x3c01},
         {"cvt.rn.f16.f32", "hf", {f(65520)}, 0x7c00},
         {"cvt.f32.f16", "fh", {0x0001}, f(0x1p-24f)},
         {"cvt.f32.f16", "fh", {0xc000}, f(-2)},
         {"cvt.rn.bf16.f32", "hf", {0x3f808000}, 0x3f80},
         {"cvt.rn.bf16.f32", "hf", {0x3f818000}, 0x3f82}});
}

TEST(PtxOpcodes, Moves) {
  check({{"mov.b32", "rf", {f(1.5f)}, f(1.5f)},
         {"mov.b64", "dF", {d(1.5)}, d(1.5)},
         {"mov.u16", "hh", {7}, 7},
         {"mov.pred", "pp", {1}, 1}});
}

// The first part is the lowest; one part may be dropped; numbers stand for registers.
TEST(PtxOpcodes, PartsOfRegisters) {
  Array<std::uint32_t> out(6);
  run(entry("ld.param.u64 %rd1, [p0];\n"
            "mov.b32 %r1, {1, 2};\nst.global.u32 [%rd1], %r1;\n"
            "mov.b32 {%rs1, %rs2}, 0x00070009;\ncvt.u32.u16 %r2, %rs1;\nst.global.u32 [%rd1+4], "
            "%r2;\n"
            "mov.b64 %rd2, {%r1, 5};\nmov.b64 {_, %r3}, %rd2;\nst.global.u32 [%rd1+8], %r3;\n"
            "mov.b64 {%r4, %r5}, %rd2;\nst.global.v2.u32 [%rd1+16], {%r4, %r5};\n"
            "mov.f32 %f1, 0f3FC00000;\nst.global.f32 [%rd1+12], %f1;\n"),
      1, {out.address()});
  EXPECT_THAT(out.values(), testing::ElementsAre(0x20001, 9, 5, 0x3fc00000, 0x20001, 5));
}

}  // namespace opcodes_test
}  // namespace hetpipe::cuda::ptx::test
